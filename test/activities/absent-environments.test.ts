import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import type { TestContext } from 'node:test';
import type { Program } from '../../src/environments/environment.js';
import { Fault } from '../../src/model/faults.js';
import type { Bench, FailureSeen, Parts } from '../fakes/activity-bench.js';
import { activityBench } from '../fakes/activity-bench.js';
import { scriptedAgent } from '../fakes/scripted-agent.js';
import { scriptedEnvironment } from '../fakes/scripted-environment.js';
import { BATCH, sampleOf } from '../fakes/temporary-store.js';

const input = { samples: [JSON.parse(sampleOf('go')) as object] };

/** A bench whose environment answers the question for its health like this. */
async function benchWith(
  t: TestContext,
  { health, ...parts }: Parts & { health: () => Promise<void> },
): Promise<Bench> {
  return await activityBench(t, {
    ...parts,
    environments: { task: { ...scriptedEnvironment([]), health } },
  });
}

const away = (type: 'EnvironmentUnavailable' | 'EnvironmentRejected') => () =>
  Promise.reject(new Fault({ type, message: 'no sandbox on this machine' }));

describe('a batch whose environment is away', () => {
  test('is not planned yet: the fault is retried and says why, and nothing is written', async (t) => {
    const bench = await benchWith(t, { health: away('EnvironmentUnavailable') });
    const { error } = await bench.run('planBatch', { input, workflow_id: BATCH });
    const { type, message, nonRetryable } = error as FailureSeen;
    assert.deepEqual([type, nonRetryable], ['EnvironmentUnavailable', false]);
    assert.match(message, /no sandbox on this machine/);
    assert.equal(await bench.store.findRequest(BATCH), null);
  });

  test('is away also when it throws anything', async (t) => {
    const bench = await benchWith(t, { health: () => Promise.reject(new Error('broken')) });
    const { error } = await bench.run('planBatch', { input, workflow_id: BATCH });
    const { type, message } = error as FailureSeen;
    assert.equal(type, 'EnvironmentUnavailable');
    assert.match(message, /environment task: broken/);
  });

  test('is planned if the environment refuses the question: it is available', async (t) => {
    const bench = await benchWith(t, { health: away('EnvironmentRejected') });
    const { error } = await bench.run('planBatch', { input, workflow_id: BATCH });
    assert.equal(error, undefined);
  });

  test('is refused where this worker starts its programs: a mount below /tmp hides what they have there', async (t) => {
    const rules = { program: { verify: null } };
    const program = { outlives: false, rules } as Program;
    const bench = await activityBench(t, {
      environments: {
        task: { ...scriptedEnvironment([]), program, health: away('EnvironmentRejected') },
      },
    });
    const { error } = await bench.run('planBatch', { input, workflow_id: BATCH });
    const { type, message, nonRetryable } = error as FailureSeen;
    assert.deepEqual([type, nonRetryable], ['EnvironmentRejected', true], message);
    assert.match(message, /no sandbox on this machine/);
  });

  test('is planned by a worker that plays none of its steps: what it needs is on another machine', async (t) => {
    const health = () => assert.fail('it was asked');
    const bench = await benchWith(t, { is_asked: false, health });
    const { error } = await bench.run('planBatch', { input, workflow_id: BATCH });
    assert.equal(error, undefined);
  });
});

describe('a batch of agents', () => {
  const sampleFor = (agent: string, index: number): object => ({
    message_log: [],
    task_name: 'task',
    extra_env_info: { agent, task_index: index, rollout_index: 0, row: '{}' },
  });
  const samples = ['near', 'far', 'farther'].map(sampleFor);
  const planned = async (t: TestContext, { away }: { away: string[] }) => {
    const agent = scriptedAgent([]);
    for (const name of away) agent.away.add(name);
    const bench = await activityBench(t, { environments: { task: agent.environment } });
    const { error } = await bench.run('planBatch', { input: { samples }, workflow_id: BATCH });
    assert.deepEqual(agent.asked, ['near', 'far', 'farther']);
    return error as FailureSeen | undefined;
  };

  test('is planned as soon as one of them answers: the rollouts of the others wait by themselves', async (t) => {
    assert.equal(await planned(t, { away: ['near', 'farther'] }), undefined);
  });

  test('waits while none answers, and says which are away', async (t) => {
    const error = await planned(t, { away: ['near', 'far', 'farther'] });
    assert.equal(error?.type, 'EnvironmentUnavailable');
    assert.match(
      error.message,
      /no agent of this batch answers: near, far, farther \(GET http:\/\/agent\/ failed: refused\)$/,
    );
  });
});
