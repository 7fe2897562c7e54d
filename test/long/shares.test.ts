/** Streams and batches at an engine with eight places: each has its share, whoever came first, however many wait. */
import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { connectBatchClient } from '../../src/client/batch-client.js';
import { onLoopback } from '../../src/client/server.js';
import { puzzleRequest } from '../../lab/bed/puzzle-request.js';
import { MANY, QUEUE, SLOTS, sharesBed } from '../harness/shares-bed.js';
import { openStreamToTest } from '../../lab/bed/stream.js';

describe('at the places of one engine', () => {
  const { bed, start, timesOf, untilPlayed, shareOf } = sharesBed();

  test('a batch of a lower priority number gets most of them, beside one with four times as many in flight', async () => {
    const late = await start('late', { max_in_flight: MANY, priority: 5 });
    await untilPlayed('late', 2 * SLOTS);
    const { outcome } = await start('urgent', { limit: 2 * SLOTS, priority: 1 });
    await outcome(120_000);
    const [began = 0] = await timesOf('urgent', 'generation');
    const ends = await timesOf('urgent', 'end');
    const got = await shareOf(['urgent', 'late'], [began + 0.5, ends.at(-SLOTS) ?? 0]);
    assert.ok(got > 0.5, `it got ${got.toFixed(2)} of the places; in order of arrival 0.2`);
    await late.handle.signal('stop');
    await late.handle.result();
  });

  test('a stream with 8 rollouts in flight gets twice its part of all in flight, beside a batch with 64', async () => {
    const batch = await start('crowd', { max_in_flight: MANY });
    await untilPlayed('crowd', 2 * SLOTS);
    const stream = openStreamToTest({
      client: () => bed().server.client,
      store_root: bed().store_root,
      id: 'train',
      task_queue: QUEUE,
    });
    await stream.start({
      ...puzzleRequest({ samples: 8, num_repeats: 2 }, { max_rollout_turns: 5 }),
      groups_per_step: 16,
      max_in_flight: SLOTS,
    });
    await untilPlayed('train', SLOTS);
    const client = await connectBatchClient(onLoopback(bed().server));
    try {
      const { progress } = await client.attach('crowd').look();
      assert.deepEqual([progress?.priority, progress?.share], [3, 1]);
    } finally {
      await client.close();
    }
    await batch.outcome();
    await stream.handle().signal('stop');
    await stream.handle().result();

    const [began = 0] = await timesOf('train', 'generation');
    const ends = await timesOf('crowd', 'end');
    // Until so few of the batch are left that none has to wait.
    const got = await shareOf(['train', 'crowd'], [began + 0.5, ends.at(-2 * SLOTS) ?? 0]);
    // Half, less what it cannot use: between two turns of a rollout none of it waits.
    assert.ok(
      got > 0.22 && got < 0.65,
      `the stream got ${got.toFixed(2)} of the places; in order of arrival 0.11`,
    );
    const { priority } = await bed().server.client.workflow.getHandle('train/0-0').describe();
    assert.deepEqual(priority, { priorityKey: 3, fairnessKey: 'train', fairnessWeight: 1 });
  });

  test('one with three times the share gets three times as much', async () => {
    await start('one', { max_in_flight: MANY, share: 0.5 });
    await untilPlayed('one', SLOTS);
    const three = await start('three', { max_in_flight: MANY, share: 1.5 });
    await three.outcome();
    const [began = 0] = await timesOf('three', 'generation');
    const ends = await timesOf('three', 'end');
    const got = await shareOf(['three', 'one'], [began + 0.5, ends.at(-2 * SLOTS) ?? 0]);
    assert.ok(got > 0.62 && got < 0.88, `it got ${got.toFixed(2)} of the places, expected 0.75`);
    const one = bed().server.client.workflow.getHandle('one');
    await one.signal('stop');
    await one.result();
  });
});
