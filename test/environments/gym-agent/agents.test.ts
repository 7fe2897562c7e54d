import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import type { TestContext } from 'node:test';
import type { z } from 'zod';
import type { AgentRequest } from '../../../src/environments/environment.js';
import type { AgentsSettings } from '../../../src/environments/gym-agent/agents.js';
import { createAgents } from '../../../src/environments/gym-agent/agents.js';
import { EnvironmentSettings } from '../../../src/environments/registry.js';
import { problemsOf } from '../../../src/model/problems.js';
import { answerOf } from '../../fakes/answer-of.js';
import { eventually } from '../../../lab/bed/waiting.js';
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
  const agents = agentsOf(t, { timeout_ms });
  return {
    server,
    run: (more: Partial<Omit<AgentRequest, 'keep'>> = {}) =>
      answerOf(agents, { url: server.url, body: BODY, attempt: 0, signal, ...more }),
  };
}

/** A usable answer with so many lists in its object. */
const nested = (lists: number): string =>
  `{"reward":1,"x":${'['.repeat(lists)}${']'.repeat(lists)}}`;

describe('the run of an agent', () => {
  test('is given the text of the row as it is, and gives its answer as it came', async (t) => {
    const server = await serve(t);
    const agents = agentsOf(t, {});
    const body = `{ "_ng_task_index": 3, "_ng_rollout_index": 1, "big": 9007199254740993, "f": 1.0 }`;
    const answer = await answerOf(agents, { url: `${server.url}/`, body, attempt: 0, signal });
    assert.equal(server.events[0]?.body, body);
    const expected = answerFor({ ...ROW });
    assert.deepEqual(JSON.parse(answer.text), expected);
    const { output_tokens } = (expected['response'] as { usage: { output_tokens: number } }).usage;
    assert.deepEqual(
      { ...answer, text: '' },
      {
        text: '',
        reward: expected['reward'],
        failure_class: null,
        terminal: false,
        persist: true,
        usage: { output_tokens, total_tokens: 10 + output_tokens },
      },
    );
  });

  test('that is another attempt has the attempt in its row, whose numbers keep their digits', async (t) => {
    const server = await serve(t);
    const agents = agentsOf(t, {});
    const body = '{"_ng_task_index":3,"_ng_rollout_index":1,"big":9007199254740993,"f":1.0}';
    await answerOf(agents, { url: server.url, body, attempt: 2, signal });
    assert.equal(server.events[0]?.body, body.replace('}', ',"_ng_attempt_index":2}'));
  });

  test('that says itself that it failed needs no reward', async (t) => {
    const failure = { _ng_failure_class: 'judge_failed', _ng_failure_terminal: true };
    const { run } = await acting(t, { kind: 'answer', with: failure, without: ['reward'] });
    const { reward, failure_class, terminal, persist } = await run();
    assert.deepEqual(
      { reward, failure_class, terminal, persist },
      { reward: null, failure_class: 'judge_failed', terminal: true, persist: true },
    );
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
      const { run } = await acting(t, { kind: 'answer', with: { reward: 0, ...more } });
      const { masked, untrained, reward, failure_class } = await run();
      assert.deepEqual(
        { masked, untrained },
        { masked: undefined, untrained: undefined, ...marks },
      );
      assert.deepEqual([reward, failure_class], [0, null]);
    });
  }

  test('with mask_sample and without a reward has none that means anything', async (t) => {
    const { run } = await acting(t, {
      kind: 'answer',
      with: { mask_sample: true },
      without: ['reward'],
    });
    const { masked, untrained, reward } = await run();
    assert.deepEqual([masked, untrained, reward], ['mask_sample', undefined, null]);
  });

  test('that must not be stored says so', async (t) => {
    const { run } = await acting(t, { kind: 'answer', with: { _ng_no_persist: true } });
    assert.equal((await run()).persist, false);
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
    const { run } = await acting(t, { kind: 'text', text: nested(511) });
    assert.equal((await run()).reward, 1);
  });

  for (const [what, act, type, failureClass, status, message] of faults) {
    test(`that gives ${what} is ${type} of class ${failureClass}`, async (t) => {
      const { run } = await acting(t, { ...act, ...(act.kind === 'hang' && { timeout_ms: 300 }) });
      const fault = await faultOf(run());
      assert.deepEqual(
        { type: fault.type, failureClass: fault.failureClass, status: fault.status },
        { type, failureClass, status },
      );
      // The server says that it did not play; in all other cases this is unknown.
      assert.equal(fault.uncounted, status === 429 || status === 503);
      assert.match(fault.message, message);
      assert.ok(fault.message.length < 2500, `${fault.message.length} characters`);
    });
  }

  test('that the server does not take may be sent again when it says', async (t) => {
    const { run } = await acting(t, { kind: 'status', status: 503, retry_after_s: 7 });
    const { retryAfterMs, uncounted } = await faultOf(run());
    assert.deepEqual([retryAfterMs, uncounted], [7000, true]);
  });

  test('whose connection is refused was not sent', async (t) => {
    const { server, run } = await acting(t, { kind: 'hang' });
    await server.close();
    const { failureClass, uncounted, message } = await faultOf(run());
    assert.deepEqual([failureClass, uncounted], ['agent_request_failed', true]);
    assert.match(message, /ECONNREFUSED/);
  });

  test('that is aborted closes its connection, and throws the reason', async (t) => {
    const { server, run } = await acting(t, { kind: 'hang' });
    const controller = new AbortController();
    const running = run({ signal: controller.signal });
    running.catch(() => undefined);
    await eventually('the request', () => server.events.length > 0);
    controller.abort(new Error('enough'));
    await assert.rejects(running, /^Error: enough$/);
    await eventually('the end of the connection', () =>
      server.events.some(({ event }) => event === 'closed'),
    );
  });
});

describe('the server of an agent', () => {
  for (const status of [200, 404, 500]) {
    test(`is available if it answers ${status}`, async (t) => {
      const { url } = await startServer(answer(status, 'no such page'));
      const agents = agentsOf(t, { agents: { simple_agent: `${url}/` } });
      assert.equal(await agents.health('simple_agent', signal), `${url}/`);
    });
  }

  for (const status of [429, 502, 503, 504]) {
    test(`is away when it answers ${status}, or a proxy before it does`, async (t) => {
      const { url } = await startServer((_, response) => {
        response.writeHead(status, { 'retry-after': '3' }).end();
      });
      const agents = agentsOf(t, { agents: { simple_agent: url } });
      const fault = await faultOf(agents.health('simple_agent', signal));
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
    const fault = await faultOf(agents.health('simple_agent', signal));
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
    assert.equal(await agents.health('a', signal), first.url);
    await first.close();
    moved = await serve(t);
    now = 1000;
    await faultOf(agents.health('a', signal));
    assert.equal(await agents.health('a', signal), moved.url);
  });

  test('that is given is not asked of the head server', async (t) => {
    const server = await serve(t);
    const agents = agentsOf(t, { head_server: 'http://127.0.0.1:1', agents: { a: server.url } });
    assert.equal(await agents.health('a', signal), server.url);
  });

  test('that the head server does not list is a failure of the row, which names the listed ones', async (t) => {
    const server = await serve(t, { script: { agents: ['one', 'two'] } });
    const fault = await faultOf(agentsOf(t, { head_server: server.url }).health('three', signal));
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
    const fault = await faultOf(agents.health('a', signal));
    assert.deepEqual([fault.type, fault.failureClass], ['EnvironmentUnavailable', null]);
  });
});

describe('settings of kind gym_agent', () => {
  const problemsIn = (settings: object): string[] => {
    const given = { kind: 'gym_agent', ...settings };
    const { error } = EnvironmentSettings.safeParse(given);
    return error === undefined
      ? []
      : problemsOf(error, given).map(({ where, what }) => `${where}: ${what}`);
  };

  test('have a head server, or agents by name', () => {
    assert.deepEqual(problemsIn({ head_server: 'http://127.0.0.1:11000' }), []);
    assert.deepEqual(problemsIn({ agents: { a: 'http://127.0.0.1:9000' } }), []);
    assert.deepEqual(problemsIn({}), [
      '(input): expected head_server, or agents by name, got neither',
    ]);
  });

  test('are strict', () => {
    const head_server = 'http://127.0.0.1:11000';
    assert.deepEqual(problemsIn({ head_server, port: 1 }), ['port: unknown field']);
    assert.match(
      problemsIn({ head_server, max_answer: '3' })[0] ?? '',
      /^max_answer: expected a size/,
    );
    assert.match(problemsIn({ agents: { a: 'nowhere' } })[0] ?? '', /^agents\.a: expected a URL/);
  });
});
