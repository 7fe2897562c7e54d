import assert from 'node:assert/strict';
import { after, describe, test } from 'node:test';
import type { EnvironmentContext } from '../../../src/environments/kind.js';
import { GymAgentSettings, gymAgent } from '../../../src/environments/gym-agent/kind.js';
import { EnvironmentSettings } from '../../../src/environments/registry.js';
import { problemsOf } from '../../../src/model/problems.js';
import { createAllowance } from '../../../src/platform/waits/allowance.js';
import { faultOf } from '../../harness/fault-of.js';
import { answer, startServer } from '../loopback-server.js';

const { signal } = new AbortController();

/** A server that answers, and an environment whose agent `a` is there. */
async function environmentOf(more: object = {}) {
  const { url, received } = await startServer(answer(200, {}));
  const settings = GymAgentSettings.parse({ kind: 'gym_agent', agents: { a: url }, ...more });
  const answers = createAllowance(0);
  const environment = await gymAgent.make(settings, { answers } as EnvironmentContext);
  after(() => environment.close?.());
  const { program } = environment;
  assert.ok(program !== undefined);
  return { environment, program, received };
}

const sampleOf = (more: object = {}) => ({
  ...{ agent: 'a', task_index: 0, rollout_index: 0, row: '{}' },
  ...more,
});

describe('an environment of kind gym_agent', () => {
  test('asks this policy, unless its agents have a model of their own', async () => {
    assert.equal((await environmentOf()).program.rules.asks_policy, true);
    const own = await environmentOf({ model_server: 'own' });
    assert.equal(own.program.rules.asks_policy, false);
    assert.deepEqual([own.program.rules.program.verify, own.program.outlives], [null, false]);
  });

  test('plays a row as often as it has attempts left', async () => {
    const { attemptsOf } = (await environmentOf()).program;
    assert.deepEqual(
      [{}, { max_attempts: 5 }, { max_attempts: 5, attempt_index: 2 }].map((more) =>
        attemptsOf?.(sampleOf(more)),
      ),
      [3, 5, 3],
    );
  });

  test('is there where the agent of the sample is', async () => {
    const { program, received } = await environmentOf();
    await program.health(signal);
    assert.equal(received.length, 0);
    await program.health(signal, sampleOf());
    assert.equal(received.length, 1);
    const fault = await faultOf(program.health(signal, sampleOf({ agent: 'b' })));
    assert.deepEqual([fault.type, fault.failureClass], ['EnvironmentRejected', 'agent_run_error']);
  });

  test('answers no single turn', async () => {
    const { environment } = await environmentOf();
    const turn = { message_log: [], metadata: {} };
    const fault = await faultOf(environment.step(turn, { idempotency_key: 'b/0-0/0', signal }));
    assert.deepEqual([fault.type, fault.retryable], ['EnvironmentRejected', false]);
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
