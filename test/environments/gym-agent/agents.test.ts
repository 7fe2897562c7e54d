import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import type { TestContext } from 'node:test';
import type { z } from 'zod';
import type { ProgramEnd } from '../../../src/environments/environment.js';
import type { AgentsSettings } from '../../../src/environments/gym-agent/agents.js';
import { createAgents } from '../../../src/environments/gym-agent/agents.js';
import type { Fault } from '../../../src/model/faults.js';
import { type AskedRun, endedRun } from '../../fakes/ended-run.js';
import type { AgentAct } from '../../servers/gym-agent-script.js';
import { answerFor } from '../../servers/gym-agent-script.js';
import type { GymAgentServerOptions } from '../../servers/gym-agent-server.js';
import { startGymAgentServer } from '../../servers/gym-agent-server.js';
import { answer, startServer } from '../loopback-server.js';
import { faultOf } from '../../harness/fault-of.js';

const signal = new AbortController().signal;
const ROW = { _ng_task_index: 3, _ng_rollout_index: 1, agent_ref: { name: 'simple_agent' } };
const BODY = JSON.stringify(ROW);

async function serve(t: TestContext, options: GymAgentServerOptions = {}) {
  const server = await startGymAgentServer(options);
  t.after(() => server.close());
  return server;
}

function agentsOf(t: TestContext, settings: Partial<AgentsSettings>) {
  const agents = createAgents({
    head_server: null,
    agents: {},
    timeout_ms: 60_000,
    max_answer_bytes: 1_000_000,
    ...settings,
  });
  t.after(agents.close);
  return agents;
}

/** An agent that does this with its first call, and the way to call it. */
async function acting(
  t: TestContext,
  { timeout_ms = 60_000, ...act }: z.input<typeof AgentAct> & { timeout_ms?: number },
) {
  const server = await serve(t, { script: { rows: { '3-1': [act] } } });
  const agents = agentsOf(t, { timeout_ms, agents: { a: server.url } });
  const run = (more: Partial<AskedRun> = {}): Promise<ProgramEnd> =>
    endedRun(agents, { body: BODY, ...more });
  return {
    server,
    run,
    resultOf: async () => {
      const { exit, result, failure } = await run();
      assert.ok(result !== undefined, failure?.message);
      return { exit, failure, ...result };
    },
  };
}

/** The failure of a life that counts, and how it ended. */
async function failureOf(run: Promise<ProgramEnd>): Promise<Fault> {
  const { exit, failure, result, settle } = await run;
  assert.ok(failure !== undefined);
  assert.deepEqual(exit, { code: 1, signal: null, tail: failure.message });
  assert.deepEqual([result?.reward ?? null, settle], [null, undefined]);
  return failure;
}

/** A usable answer with so many lists in its object. */
const nested = (lists: number): string =>
  `{"reward":1,"x":${'['.repeat(lists)}${']'.repeat(lists)}}`;

describe('the run of an agent', () => {
  test('is given the text of the row as it is, and gives its answer as it came', async (t) => {
    const server = await serve(t);
    const agents = agentsOf(t, { agents: { a: `${server.url}/` } });
    const body = `{ "_ng_task_index": 3, "_ng_rollout_index": 1, "big": 9007199254740993, "f": 1.0 }`;
    const { exit, result } = await endedRun(agents, { body });
    assert.equal(server.events[0]?.body, body);
    assert.deepEqual(exit, { code: 0, signal: null, tail: '' });
    const expected = answerFor({ ...ROW });
    assert.deepEqual(JSON.parse(result?.text ?? ''), expected);
    const { output_tokens } = (expected['response'] as { usage: { output_tokens: number } }).usage;
    assert.deepEqual(
      { ...result, text: '', run_s: 0 },
      {
        ...{ attempt: 0, text: '', run_s: 0 },
        reward: expected['reward'],
        failure_class: null,
        terminal: false,
        persist: true,
        usage: { output_tokens, total_tokens: 10 + output_tokens },
      },
    );
    assert.ok((result?.run_s ?? 0) > 0);
  });

  test('that is another attempt has the attempt in its row, whose numbers keep their digits', async (t) => {
    const server = await serve(t);
    const agents = agentsOf(t, { agents: { a: server.url } });
    const body = '{"_ng_task_index":3,"_ng_rollout_index":1,"big":9007199254740993,"f":1.0}';
    const { result } = await endedRun(agents, { body, failures: 2 });
    assert.equal(server.events[0]?.body, body.replace('}', ',"_ng_attempt_index":2}'));
    assert.equal(result?.attempt, 2);
  });

  test('that says itself that it failed needs no reward, and is a life that failed', async (t) => {
    const failure = { _ng_failure_class: 'judge_failed', _ng_failure_terminal: true };
    const { resultOf } = await acting(t, { kind: 'answer', with: failure, without: ['reward'] });
    const { reward, failure_class, terminal, persist, exit, failure: fault } = await resultOf();
    assert.deepEqual(
      { reward, failure_class, terminal, persist },
      { reward: null, failure_class: 'judge_failed', terminal: true, persist: true },
    );
    assert.deepEqual([exit.code, fault?.type, fault?.failureClass], [1, 'AgentFailed', null]);
    assert.equal(fault?.message, 'a answered attempt 0 with _ng_failure_class "judge_failed"');
  });

  for (const [what, more, marks] of [
    ['has a reward that means nothing', { judge_failed: true }, { masked: 'judge_failed' }],
    ['is not trained on', { mask_sample: true }, { untrained: 'mask_sample' }],
    [
      'is not trained on',
      { instance_config: { mask_sample: 1 } },
      { untrained: 'instance_config.mask_sample' },
    ],
    ['has both marks', { judge_failed: true, mask_sample: true }, { masked: 'judge_failed' }],
    ['has no mark', { judge_failed: false, mask_sample: null, instance_config: 'none' }, {}],
  ] as const) {
    test(`that has ${JSON.stringify(more)} ${what}`, async (t) => {
      const { resultOf } = await acting(t, { kind: 'answer', with: { reward: 0, ...more } });
      const { masked, untrained, reward, failure_class, exit } = await resultOf();
      assert.deepEqual(
        { masked, untrained },
        { masked: undefined, untrained: undefined, ...marks },
      );
      assert.deepEqual([reward, failure_class, exit.code], [0, null, 'masked' in marks ? 1 : 0]);
    });
  }

  test('with mask_sample and without a reward has none that means anything', async (t) => {
    const { resultOf } = await acting(t, {
      kind: 'answer',
      with: { mask_sample: true },
      without: ['reward'],
    });
    const { masked, untrained, reward, failure } = await resultOf();
    assert.deepEqual([masked, untrained, reward], ['mask_sample', undefined, null]);
    assert.match(failure?.message ?? '', /attempt 0 with mask_sample: its reward means nothing$/);
  });

  test('that must not be stored says so', async (t) => {
    const { resultOf } = await acting(t, { kind: 'answer', with: { _ng_no_persist: true } });
    const { persist, failure } = await resultOf();
    assert.equal(persist, false);
    assert.match(failure?.message ?? '', /attempt 0 with _ng_no_persist$/);
  });

  // One case a line.
  // prettier-ignore
  const faults: [what: string, act: z.input<typeof AgentAct>, type: string, failureClass: string, status: number | null, message: RegExp][] = [
    ['500', { kind: 'status', status: 500, body: '"boom"' }, 'EnvironmentUnavailable', 'agent_run_error', 500, /\/run answered 500: "boom"$/],
    ['520', { kind: 'status', status: 520 }, 'EnvironmentUnavailable', 'agent_run_error', 520, /520/],
    ['429', { kind: 'status', status: 429 }, 'EnvironmentUnavailable', 'agent_request_failed', 429, /429/],
    ['502', { kind: 'status', status: 502 }, 'EnvironmentUnavailable', 'agent_request_failed', 502, /502/],
    ['504', { kind: 'status', status: 504 }, 'EnvironmentUnavailable', 'agent_request_failed', 504, /504/],
    ['503', { kind: 'status', status: 503 }, 'EnvironmentUnavailable', 'agent_request_failed', 503, /503/],
    ['422', { kind: 'status', status: 422 }, 'EnvironmentRejected', 'agent_run_error', 422, /422/],
    ['a connection that is cut', { kind: 'reset' }, 'EnvironmentUnavailable', 'agent_request_failed', null, /POST http.*\/run failed/],
    ['no answer in time', { kind: 'hang' }, 'EnvironmentUnavailable', 'agent_request_failed', null, /no answer within 300 ms/],
    ['no JSON', { kind: 'text', text: '<html>' }, 'EnvironmentRejected', 'agent_run_error', null, /\(body\): expected JSON, got "<html>"/],
    ['an empty body', { kind: 'text', text: '' }, 'EnvironmentRejected', 'agent_run_error', null, /expected JSON, got an empty body/],
    ['a list', { kind: 'text', text: '[]' }, 'EnvironmentRejected', 'agent_run_error', null, /\(input\): expected object, got \[\]/],
    ['no reward', { kind: 'answer', without: ['reward'] }, 'EnvironmentRejected', 'agent_run_error', null, /answered: reward: expected a finite number, got nothing/],
    ['a reward that is NaN', { kind: 'text', text: '{"reward": NaN}' }, 'EnvironmentRejected', 'agent_run_error', null, /expected JSON, got "\{\\"reward\\": NaN\}" \(Unexpected token/],
    ['a reward that is a text', { kind: 'answer', with: { reward: 'NaN' } }, 'EnvironmentRejected', 'agent_run_error', null, /reward: expected a finite number, got "NaN"/],
    ['an answer too deep for what reads it', { kind: 'text', text: nested(512) }, 'EnvironmentRejected', 'agent_run_error', null, /answered: \(body\): expected at most 512 levels, got more$/],
    ['too many bytes', { kind: 'large', bytes: 20_000_000 }, 'EnvironmentRejected', 'agent_run_error', null, /answered with more than 1000000 bytes/],
  ];
  test('may be nested 512 levels deep', async (t) => {
    const { resultOf } = await acting(t, { kind: 'text', text: nested(511) });
    assert.equal((await resultOf()).reward, 1);
  });

  for (const [what, act, type, failureClass, status, message] of faults) {
    test(`that gives ${what} is ${type} of class ${failureClass}`, async (t) => {
      const { run } = await acting(t, { ...act, ...(act.kind === 'hang' && { timeout_ms: 300 }) });
      // The server says that it did not play, so no life has ended; in all other cases this is unknown.
      const isUncounted = status === 429 || status === 503;
      const fault = await (isUncounted ? faultOf(run()) : failureOf(run()));
      assert.deepEqual(
        { type: fault.type, failureClass: fault.failureClass, status: fault.status },
        { type, failureClass, status },
      );
      assert.equal(fault.uncounted, isUncounted);
      assert.match(fault.message, message);
      assert.ok(fault.message.length < 2500, `${fault.message.length} characters`);
    });
  }

  test('that the server does not take may be sent again when it says', async (t) => {
    const { run } = await acting(t, { kind: 'status', status: 503, retry_after_s: 7 });
    const { retryAfterMs, uncounted } = await faultOf(run());
    assert.deepEqual([retryAfterMs, uncounted], [7000, true]);
  });

  test('that failed is played again after a pause, a longer one the second time, or when its server says', async (t) => {
    const failed = { kind: 'status', status: 500 } as const;
    const said = { ...failed, retry_after_s: 7 };
    const server = await serve(t, { script: { rows: { '3-1': [failed, failed, said] } } });
    const agents = agentsOf(t, { agents: { a: server.url } });
    const pauses: unknown[] = [];
    for (const failures of [0, 1, 2])
      pauses.push((await failureOf(endedRun(agents, { body: BODY, failures }))).retryAfterMs);
    assert.deepEqual(pauses, [2000, 15_000, 7000]);
  });

  test('has the time that its row says, in place of the setting', async (t) => {
    const { run } = await acting(t, { kind: 'hang' });
    assert.match((await failureOf(run({ timeout: '300ms' }))).message, /no answer within 300 ms/);
  });

  test('whose connection is refused was not sent', async (t) => {
    const server = await startGymAgentServer();
    // The answer to the knock is kept for a second.
    const agents = agentsOf(t, { agents: { a: server.url }, now: () => 0 });
    await agents.serverOf('a', signal);
    await server.close();
    const { failureClass, uncounted, message } = await faultOf(endedRun(agents, { body: BODY }));
    assert.deepEqual([failureClass, uncounted], ['agent_request_failed', true]);
    assert.match(message, /^POST .*ECONNREFUSED/);
  });

  test('is not sent to a server that is away, which is no failure of a run', async (t) => {
    const { url, received } = await startServer(answer(503, 'busy'));
    const fault = await faultOf(endedRun(agentsOf(t, { agents: { a: url } }), { body: BODY }));
    assert.deepEqual([fault.failureClass, fault.uncounted], [null, true]);
    assert.deepEqual(
      received.map(({ method, url: path }) => `${method} ${path}`),
      ['GET /'],
    );
  });
});

describe('the server of an agent', () => {
  for (const status of [200, 404, 500]) {
    test(`is available if it answers ${status}`, async (t) => {
      const { url } = await startServer(answer(status, 'no such page'));
      const agents = agentsOf(t, { agents: { simple_agent: `${url}/` } });
      assert.equal(await agents.serverOf('simple_agent', signal), `${url}/`);
    });
  }

  for (const status of [429, 502, 503, 504]) {
    test(`is away when it answers ${status}, or a proxy before it does`, async (t) => {
      const { url } = await startServer((_, response) => {
        response.writeHead(status, { 'retry-after': '3' }).end();
      });
      const agents = agentsOf(t, { agents: { simple_agent: url } });
      const fault = await faultOf(agents.serverOf('simple_agent', signal));
      assert.deepEqual(
        [fault.type, fault.failureClass, fault.retryAfterMs],
        ['EnvironmentUnavailable', null, 3000],
      );
    });
  }

  test('that refuses the connection is away, which is no failure of a run', async (t) => {
    const server = await startGymAgentServer();
    await server.close();
    const agents = agentsOf(t, { agents: { simple_agent: server.url } });
    const fault = await faultOf(agents.serverOf('simple_agent', signal));
    assert.deepEqual([fault.type, fault.failureClass], ['EnvironmentUnavailable', null]);
    assert.match(fault.message, /^GET http:\/\/127.0.0.1:\d+\/ failed: .*ECONNREFUSED/);
  });

  test('is asked of the head server, once', async (t) => {
    const server = await serve(t);
    const agents = agentsOf(t, { head_server: server.url });
    for (let i = 0; i < 3; i++)
      assert.equal(await agents.urlOf('simple_agent', signal), server.url);
    assert.deepEqual(server.others, ['GET /global_config_dict_yaml']);
  });

  test('is asked of the head server again when it is not where it was', async (t) => {
    const first = await startGymAgentServer();
    const head = await startServer((_, response) => {
      const { port } = new URL(moved.url);
      const yaml = `a:\n  responses_api_agents:\n    x: {host: 127.0.0.1, port: ${port}}\n`;
      answer(200, JSON.stringify(yaml))(_, response);
    });
    let moved = first;
    let now = 0;
    const agents = agentsOf(t, { head_server: head.url, now: () => now });
    assert.equal(await agents.serverOf('a', signal), first.url);
    await first.close();
    moved = await serve(t);
    now = 1000;
    await faultOf(agents.serverOf('a', signal));
    assert.equal(await agents.serverOf('a', signal), moved.url);
  });

  test('that is given is not asked of the head server', async (t) => {
    const server = await serve(t);
    const agents = agentsOf(t, { head_server: 'http://127.0.0.1:1', agents: { a: server.url } });
    assert.equal(await agents.serverOf('a', signal), server.url);
  });

  test('that the head server does not list is a failure of the row, which names the listed ones', async (t) => {
    const server = await serve(t, { script: { agents: ['one', 'two'] } });
    const fault = await faultOf(agentsOf(t, { head_server: server.url }).serverOf('three', signal));
    assert.deepEqual([fault.type, fault.failureClass], ['EnvironmentRejected', 'agent_run_error']);
    assert.match(fault.message, /three: expected a server with host and port; there are one, two$/);
  });

  for (const [what, body] of [
    ['no JSON', 'a: 1'],
    ['no text', '{"a": 1}'],
    ['no YAML mapping', '"- 1"'],
  ] as const) {
    test(`of a head server that answers ${what} is not known`, async (t) => {
      const head = await startServer(answer(200, body));
      const fault = await faultOf(agentsOf(t, { head_server: head.url }).urlOf('a', signal));
      assert.equal(fault.type, 'EnvironmentRejected');
      assert.match(fault.message, /expected a JSON string that holds a YAML mapping/);
    });
  }

  test('of a head server that is away is not known yet', async (t) => {
    const agents = agentsOf(t, { head_server: 'http://127.0.0.1:1' });
    const fault = await faultOf(agents.serverOf('a', signal));
    assert.deepEqual([fault.type, fault.failureClass], ['EnvironmentUnavailable', null]);
  });
});
