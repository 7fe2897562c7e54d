import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { activityBench } from '../fakes/activity-bench.js';

describe('a rollout that is started by hand', () => {
  const sample = { message_log: [{ role: 'user', content: 'go' }], task_name: 'task' };

  test('is planned as a batch of one under its workflow id', async (t) => {
    const bench = await activityBench(t);
    const { result, error } = await bench.run('openRollout', {
      input: { sample, max_rollout_turns: 3 },
      workflow_id: 'by-hand',
    });
    assert.equal(error, undefined);
    assert.deepEqual([result?.batch_id, result?.row, result?.repeat], ['by-hand', 0, 0]);
    const request = await bench.store.findRequest('by-hand');
    assert.deepEqual([request?.num_repeats, request?.max_rollout_turns], [1, 3]);
    assert.equal(request?.generation.model, 'policy');
    assert.equal(await bench.store.sampleCount('by-hand'), 1);
  });

  test('continues when it is started again, and is refused with other settings', async (t) => {
    const bench = await activityBench(t);
    const start = (input: unknown) => bench.run('openRollout', { input, workflow_id: 'by-hand' });
    await start({ sample });
    assert.equal((await start({ sample })).error, undefined);
    const { error } = await start({ sample, max_rollout_turns: 3 });
    assert.match(String(error), /max_rollout_turns: the batch of this id has 100, got 3/);
  });

  for (const [what, input, expected] of [
    ['a field of a batch', { sample, num_repeats: 2 }, /num_repeats: unknown field/],
    [
      'no prompt',
      { sample: { task_name: 'task' } },
      /sample\.message_log: expected array, got nothing/,
    ],
    [
      'an unknown task',
      { sample: { ...sample, task_name: 'chess' } },
      /No environment found for task type: chess/,
    ],
  ] as const) {
    test(`with ${what} is refused`, async (t) => {
      const bench = await activityBench(t);
      const { error } = await bench.run('openRollout', { input, workflow_id: 'by-hand' });
      assert.match(String(error), expected);
      assert.equal(await bench.store.findRequest('by-hand'), null);
    });
  }
});
