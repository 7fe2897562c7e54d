import assert from 'node:assert/strict';
import type { TestContext } from 'node:test';
import { describe, test } from 'node:test';
import { setTimeout as sleep } from 'node:timers/promises';
import type { AgentsSettings } from '../../../src/environments/gym-agent/agents.js';
import { createAgents } from '../../../src/environments/gym-agent/agents.js';
import { Fault } from '../../../src/model/faults.js';
import { createAllowance } from '../../../src/platform/waits/allowance.js';
import { answerOf } from '../../fakes/answer-of.js';
import { eventually } from '../../../lab/bed/waiting.js';
import type { GymAgentServerOptions } from '../../servers/gym-agent-server.js';
import { startGymAgentServer } from '../../servers/gym-agent-server.js';

const signal = new AbortController().signal;
const BODY = JSON.stringify({ _ng_task_index: 3, _ng_rollout_index: 1 });

async function serve(t: TestContext, script: GymAgentServerOptions['script'] = {}) {
  const server = await startGymAgentServer({ script });
  t.after(() => server.close());
  return server;
}

function agentsOf(t: TestContext, settings: Partial<AgentsSettings> = {}) {
  const agents = createAgents({
    head_server: null,
    agents: {},
    timeout_ms: 60_000,
    max_answer_bytes: 2_000_000,
    ...settings,
  });
  t.after(agents.close);
  return agents;
}

describe('a worker', () => {
  test('holds no more large answers at once than have room, and small ones beside them', async (t) => {
    const rows = Object.fromEntries(
      [0, 1, 2, 3].map((row) => [`${row}-0`, [{ kind: 'large', bytes: 100_000 } as const]]),
    );
    const server = await serve(t, { rows });
    const agents = agentsOf(t);
    const keeping = new Set<number>();
    const most = { large: 0, all: 0 };
    const run = (row: number): Promise<void> =>
      agents.run({
        url: server.url,
        body: JSON.stringify({ _ng_task_index: row, _ng_rollout_index: 0 }),
        attempt: 0,
        signal,
        keep: async ({ text }) => {
          assert.equal(text.length > 100_000, row < 4);
          keeping.add(row);
          most.all = Math.max(most.all, keeping.size);
          most.large = Math.max(most.large, [...keeping].filter((each) => each < 4).length);
          if (row < 4) await eventually('another beside it', () => most.all > 1);
          await sleep(50);
          keeping.delete(row);
        },
      });
    await Promise.all([0, 1, 2, 3, 4, 5].map(run));
    assert.equal(most.large, 1);
  });
});

describe('a run', () => {
  test('whose answer cannot be kept is no fault of the agent, and makes room', async (t) => {
    const large = { kind: 'large', bytes: 100_000 } as const;
    const server = await serve(t, { rows: { '3-1': [large, large] } });
    const agents = agentsOf(t);
    const request = { url: server.url, body: BODY, attempt: 0, signal };
    const full = new Fault({ type: 'StoreFault', message: 'full' });
    await assert.rejects(agents.run({ ...request, keep: () => Promise.reject(full) }), full);
    assert.equal(typeof (await answerOf(agents, request)).reward, 'number');
  });

  test('that is aborted while its answer waits for room leaves the line', async (t) => {
    const answers = createAllowance(0);
    const other = answers.share();
    await other.take(1, signal);
    const large = { kind: 'large', bytes: 1_000_000 } as const;
    const server = await serve(t, { rows: { '3-1': [large] } });
    const agents = agentsOf(t, { answers });
    const controller = new AbortController();
    const request = { url: server.url, body: BODY, attempt: 0, signal: controller.signal };
    const running = answerOf(agents, request);
    running.catch(() => undefined);
    await eventually('the answer', () => server.events.some(({ event }) => event === 'answered'));
    await sleep(50);
    controller.abort(new Error('enough'));
    await assert.rejects(running, /^Error: enough$/);
    other.giveBack();
    await other.take(1, signal);
  });
});
