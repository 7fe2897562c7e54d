import assert from 'node:assert/strict';
import type { ServerResponse } from 'node:http';
import { describe, test } from 'node:test';
import type { TestContext } from 'node:test';
import { createAgents } from '../../../src/environments/gym-agent/agents.js';
import { createHeadServer } from '../../../src/environments/gym-agent/head-server.js';
import type { ProgramEnd } from '../../../src/environments/environment.js';
import { endedRun } from '../../fakes/ended-run.js';
import { faultOf } from '../../fakes/temporary-store.js';
import { longestHold_ms } from '../../harness/processor-time.js';
import { eventually } from '../../../lab/bed/waiting.js';
import { startGymAgentServer } from '../../servers/gym-agent-server.js';
import { answer, startServer } from '../loopback-server.js';

const signal = new AbortController().signal;

const configOf = (ports: Record<string, number | string>): string =>
  JSON.stringify(
    Object.entries(ports)
      .map(([name, port]) => `${name}:\n  responses_api_agents:\n    x: {host: h, port: ${port}}\n`)
      .join(''),
  );

/** A head server whose answer the test sets, on a clock that the test moves. */
async function deployment(t: TestContext, ports: Record<string, number | string>) {
  const deployed = { ports, now: 0, act: 'answer' as 'answer' | 'hold' | 'cut' | 'nonsense' };
  const held: ServerResponse[] = [];
  const { url, received } = await startServer((request, response) => {
    switch (deployed.act) {
      case 'answer':
        answer(200, configOf(deployed.ports))(request, response);
        break;
      case 'hold':
        held.push(response);
        break;
      case 'cut':
        response.destroy();
        break;
      case 'nonsense':
        answer(200, '<html>')(request, response);
    }
  });
  const head = createHeadServer(url, () => deployed.now);
  t.after(() => head.close());
  const release = (): void => {
    for (const response of held) response.end(configOf(deployed.ports));
  };
  return { url, deployed, head, held, release, asked: () => received.length };
}

describe('what a head server said', () => {
  test('is kept for ten seconds: servers that were started anew have other ports', async (t) => {
    const { head, deployed, asked } = await deployment(t, { a: 1, b: 2 });
    assert.equal(await head.serverUrl('a', signal), 'http://h:1');
    deployed.ports = { a: 2, b: 1 };
    deployed.now = 9999;
    assert.equal(await head.serverUrl('a', signal), 'http://h:1');
    assert.equal(asked(), 1);
    deployed.now = 10_000;
    assert.equal(await head.serverUrl('a', signal), 'http://h:2');
    assert.equal(await head.serverUrl('b', signal), 'http://h:1');
    assert.equal(asked(), 2);
  });

  test('is asked for once by all who ask together, and one that leaves cuts no other', async (t) => {
    const { head, deployed, held, release, asked } = await deployment(t, { a: 1 });
    deployed.act = 'hold';
    const leaver = new AbortController();
    const questions = [signal, leaver.signal, signal].map((each) => head.serverUrl('a', each));
    const ends = Promise.allSettled(questions);
    await eventually('the question', () => held.length > 0);
    leaver.abort(new Error('enough'));
    await assert.rejects(questions[1]!, /^Error: enough$/);
    release();
    assert.deepEqual(
      (await ends).map(({ status }) => status),
      ['fulfilled', 'rejected', 'fulfilled'],
    );
    assert.equal(asked(), 1);
  });

  for (const act of ['cut', 'nonsense'] as const) {
    test(`stays in use where the next answer is ${act}, and its age is known`, async (t) => {
      const { head, deployed } = await deployment(t, { a: 1 });
      await head.serverUrl('a', signal);
      assert.equal(head.silence(), null);
      deployed.act = act;
      deployed.now = 60_000;
      assert.equal(await head.serverUrl('a', signal), 'http://h:1');
      assert.match(
        head.silence() ?? '',
        /the head server named its address 60 s ago, and does not answer now: /,
      );
      deployed.act = 'answer';
      deployed.now = 70_000;
      await head.serverUrl('a', signal);
      assert.equal(head.silence(), null);
    });
  }

  test('is asked for again before a server is said to be unknown', async (t) => {
    const { head, deployed, asked } = await deployment(t, { a: 1 });
    await head.serverUrl('a', signal);
    deployed.ports = { a: 1, b: 2 };
    assert.equal(await head.serverUrl('b', signal), 'http://h:2');
    await assert.rejects(
      head.serverUrl('c', signal),
      faultOf('EnvironmentRejected', 'there are a, b'),
    );
    assert.equal(asked(), 3);
    deployed.act = 'cut';
    await assert.rejects(head.serverUrl('c', signal), faultOf('EnvironmentUnavailable'));
  });
});

const repeated = (text: string, bytes: number): string => text.repeat(bytes / text.length);
const keys = (count: number): string =>
  Array.from({ length: count }, (_, i) => `k${i}: 1,`).join('');

describe('what a head server says at great length', () => {
  const cases: [what: string, yaml: string, says: RegExp | null][] = [
    ['two megabytes', `a: ${repeated('x', 2e6)}`, /answered with more than 1048576 bytes/],
    ['40,000 keys', `{${keys(40_000)} a: {b: {c: {host: h, port: 1}}}}`, null],
    [
      '100,000 lists in one another',
      `a: ${repeated('[', 1e5)}`,
      /a YAML mapping, got another text|there are none/,
    ],
  ];
  for (const [what, yaml, says] of cases)
    test(`${what}: it holds up nothing else`, async (t) => {
      const { url } = await startServer(answer(200, JSON.stringify(yaml)));
      const head = createHeadServer(url);
      t.after(() => head.close());
      const held_ms = await longestHold_ms(async () => {
        const asked = head.serverUrl('a', signal);
        if (says === null) assert.equal(await asked, 'http://h:1');
        else await assert.rejects(asked, faultOf('EnvironmentRejected', says));
      });
      assert.ok(held_ms < 1000, `nothing else ran for ${held_ms} ms`);
    });
});

describe('agents that a head server lists', () => {
  const playing = async (t: TestContext, act: 'reset' | 'text' | 'answer') => {
    const script = {
      rows: { '3-1': [act === 'text' ? { kind: act, text: '<html>' } : { kind: act }] },
    };
    const server = await startGymAgentServer({ script });
    t.after(() => server.close().catch(() => undefined));
    let isGone = false;
    const head = await startServer((request, response) => {
      const { port } = new URL(server.url);
      if (isGone) response.destroy();
      else
        answer(200, configOf({ a: port }).replace('host: h', 'host: 127.0.0.1'))(request, response);
    });
    const settings = { head_server: head.url, agents: {}, timeout_ms: 5000, max_answer_bytes: 1e6 };
    const agents = createAgents(settings);
    t.after(agents.close);
    const body = '{"_ng_task_index":3,"_ng_rollout_index":1}';
    const run = (): Promise<ProgramEnd> => endedRun(agents, { body });
    return {
      server,
      agents,
      run,
      headLeaves: () => (isGone = true),
      asked: () => head.received.length,
    };
  };

  test('are asked for again after a connection that broke, not after an answer of no use', async (t) => {
    const useless = await playing(t, 'text');
    assert.equal((await useless.run()).failure?.type, 'EnvironmentRejected');
    await useless.run();
    assert.equal(useless.asked(), 1);
    const broken = await playing(t, 'reset');
    assert.equal((await broken.run()).failure?.type, 'EnvironmentUnavailable');
    await broken.run();
    assert.equal(broken.asked(), 2);
  });

  test('are used without it, whatever happens to a connection to them', async (t) => {
    const { run, headLeaves } = await playing(t, 'reset');
    await run();
    headLeaves();
    const { exit } = await run();
    assert.equal(exit.code, 0, exit.tail);
  });

  test('that are away are reported with the age of its answer', async (t) => {
    const { server, agents, run, headLeaves } = await playing(t, 'reset');
    await run();
    headLeaves();
    await server.close();
    await assert.rejects(
      agents.serverOf('a', signal),
      faultOf(
        'EnvironmentUnavailable',
        /ECONNREFUSED.*; the head server named its address \d+ s ago/,
      ),
    );
  });
});
