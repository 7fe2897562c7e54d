import assert from 'node:assert/strict';
import type { ServerResponse } from 'node:http';
import type { TestContext } from 'node:test';
import { describe, test } from 'node:test';
import type { AgentsSettings } from '../../../src/environments/gym-agent/agents.js';
import { createAgents } from '../../../src/environments/gym-agent/agents.js';
import { endedRun } from '../../fakes/ended-run.js';
import { faultOf } from '../../fakes/temporary-store.js';
import type { GymAgentServerOptions } from '../../servers/gym-agent-server.js';
import { startGymAgentServer } from '../../servers/gym-agent-server.js';
import { answer, startServer } from '../loopback-server.js';

const signal = new AbortController().signal;
const BODY = JSON.stringify({ _ng_task_index: 3, _ng_rollout_index: 1 });

async function serve(t: TestContext, script: GymAgentServerOptions['script'] = {}) {
  const server = await startGymAgentServer({ script });
  t.after(() => server.close());
  return server;
}

function agentsOf(t: TestContext, settings: Pick<AgentsSettings, 'agents' | 'now'>) {
  const limits = { timeout_ms: 30_000, max_answer_bytes: 1_000_000 };
  const agents = createAgents({ head_server: null, ...limits, ...settings });
  t.after(agents.close);
  return agents;
}

describe('an agent server', () => {
  test('that answered is not asked again for a second, by however many rows', async (t) => {
    const server = await serve(t);
    let now = 0;
    const agents = agentsOf(t, { agents: { a: server.url }, now: () => now });
    const knocks = async (rows: number): Promise<number> => {
      await Promise.all(Array.from({ length: rows }, () => agents.serverOf('a', signal)));
      return server.others.filter((route) => route === 'GET /').length;
    };
    assert.equal(await knocks(200), 1);
    now = 999;
    assert.equal(await knocks(200), 1);
    now = 1000;
    assert.equal(await knocks(200), 2);
  });

  test('that is away is asked once by rows that ask together, and again by the next', async (t) => {
    const { url, received } = await startServer((_, response) => {
      response.writeHead(received.length === 1 ? 503 : 200).end();
    });
    const agents = agentsOf(t, { agents: { a: url }, now: () => 0 });
    const refused = faultOf('EnvironmentUnavailable', /503/);
    await Promise.all([0, 1, 2].map(() => assert.rejects(agents.serverOf('a', signal), refused)));
    assert.equal(received.length, 1);
    assert.equal(await agents.serverOf('a', signal), url);
    assert.equal(received.length, 2);
  });

  test('whose connection broke is asked again at once', async (t) => {
    const server = await serve(t, { rows: { '3-1': [{ kind: 'reset' }] } });
    const agents = agentsOf(t, { agents: { a: server.url }, now: () => 0 });
    await agents.serverOf('a', signal);
    const { failure } = await endedRun(agents, { body: BODY });
    assert.equal(failure?.type, 'EnvironmentUnavailable');
    await agents.serverOf('a', signal);
    assert.deepEqual(server.others, ['GET /', 'GET /']);
  });

  test('is sent 256 rows at once over as many connections, and the next rows over the same', async (t) => {
    const at_once = 256;
    const { url, received, connections } = await startServer((request, response) => {
      // A row's answer comes when all of its round are there.
      if (request.method === 'GET') response.end();
      else waiting.push(response);
      if (waiting.length < at_once) return;
      for (const held of waiting.splice(0)) answer(200, { reward: 1 })(request, held);
    });
    const waiting: ServerResponse[] = [];
    const agents = agentsOf(t, { agents: { a: url } });
    const row = async (): Promise<void> => {
      assert.equal((await endedRun(agents, { body: BODY })).exit.code, 0);
    };
    for (let round = 0; round < 3; round++) await Promise.all(Array.from({ length: at_once }, row));
    assert.equal(received.filter(({ url: path }) => path === '/run').length, 3 * at_once);
    // Some more: the knock's may not be free yet when the first rows are sent, and a busy machine may come back after
    // the second for which a connection is kept.
    assert.ok(connections.accepted < at_once * 1.25, `${connections.accepted} connections`);
  });
});
