/** Batches that are done before all their rollouts are. */
import assert from 'node:assert/strict';
import { after, before, describe, test } from 'node:test';
import type { BatchOutcome } from '../../lab/bed/batch.js';
import { startBatch } from '../../lab/bed/batch.js';
import { puzzleRequest } from '../../lab/bed/puzzle-request.js';
import type { Testbed } from '../harness/testbed.js';
import { startTestbed } from '../harness/testbed.js';

const QUEUE = 'completion';

describe('a batch of completion policy min_k', () => {
  let bed: Testbed;

  before(async () => {
    bed = await startTestbed('completion');
    const generation = await bed.simulate({
      default: { thinking_tokens: 8, skill: 0, seed: 1, tokens_per_second: 60 },
    });
    await bed.startWorker({
      task_queue: QUEUE,
      generation,
      worker: { turn_slice: '0s', heartbeat_timeout: '2s' },
    });
  });
  after(() => bed.end());

  const run = async (
    id: string,
    request: Parameters<typeof startBatch>[1],
  ): Promise<BatchOutcome> => {
    const outcome = await (await startBatch(bed.batch(id, QUEUE), request)).outcome();
    assert.equal(outcome.failure, null);
    return outcome;
  };

  /** Valid rollouts by row. */
  const groupsOf = ({ rollouts }: BatchOutcome): number[] => {
    const groups: number[] = [];
    for (const { row } of rollouts) groups[row] = (groups[row] ?? 0) + 1;
    return groups;
  };

  function assertRestStopped(outcome: BatchOutcome, requested: number): void {
    const { counts } = outcome.result!;
    const { length } = outcome.failures;
    assert.deepEqual(counts, {
      requested,
      completed: requested - length,
      failed: 0,
      timed_out: 0,
      stopped: length,
      cancelled: 0,
    });
    assert.equal(outcome.rollouts.length, requested - length);
    assert.ok(length > 0);
    const types = outcome.failures.map(({ failure }) => failure?.type ?? '');
    assert.ok(
      types.every((type) => type === 'Stopped' || type === 'Surplus'),
      String(types),
    );
  }

  test('stops the rest of each group once it has k, and shows how long those were', async () => {
    const outcome = await run('enough', {
      ...puzzleRequest({ samples: 2, num_repeats: 6 }, { max_rollout_turns: 3 }),
      max_in_flight: 2,
      completion: { policy: 'min_k', k: 2 },
    });
    assertRestStopped(outcome, 12);
    assert.deepEqual(groupsOf(outcome), [2, 2]);
    // With two at a time, the other members of a group have not begun when it is complete.
    const begun = outcome.failures.filter(
      ({ turn_count, message_log }) => turn_count > 0 || message_log.length > 1,
    );
    assert.ok(begun.length <= 4, `${begun.length} of those that were stopped had begun`);
    const { metrics } = outcome.result!;
    const tokens = outcome.rollouts.map(({ total_tokens }) => total_tokens);
    const mean = tokens.reduce((sum, count) => sum + count, 0) / tokens.length;
    assert.equal(metrics['completed/mean_tokens'], mean);
    assert.equal(metrics['group/count'], 2);
  });

  test('stops the rest at its deadline, whatever the groups have', async () => {
    const outcome = await run('late', {
      ...puzzleRequest({ samples: 2, num_repeats: 2 }, { max_rollout_turns: 100 }),
      completion: { policy: 'min_k', k: 2, deadline: '3s' },
      min_valid: 0,
    });
    assertRestStopped(outcome, 4);
    assert.deepEqual(groupsOf(outcome), []);
    const names = Object.keys(outcome.result!.metrics);
    assert.deepEqual(names, ['attempts/mean', 'attempts/max', 'stopped/mean_tokens']);
    assert.ok(outcome.result!.metrics['stopped/mean_tokens']! > 0);
  });

  test('with fewer valid rollouts than min_valid ends as failed, its files written', async () => {
    const { failure, rollouts } = await (
      await startBatch(bed.batch('too-few', QUEUE), {
        ...puzzleRequest({ samples: 1, num_repeats: 2 }, { max_rollout_turns: 1 }),
        min_valid: 3,
      })
    ).outcome();
    assert.equal(failure?.type, 'TooFewValid');
    assert.equal(
      failure.message,
      '2 of 2 rollouts are valid, fewer than min_valid 3; the batch has no more rollouts: lower min_valid, or ask for more',
    );
    assert.equal(rollouts.length, 2);
  });

  test('that runs as slices stops the rest of each group as well', async () => {
    const outcome = await run('slices', {
      ...puzzleRequest({ samples: 2, num_repeats: 151 }, { max_rollout_turns: 2 }),
      max_in_flight: 4,
      completion: { policy: 'min_k', k: 3 },
    });
    assertRestStopped(outcome, 302);
    assert.deepEqual(groupsOf(outcome), [3, 3]);
  });
});
