/** Batches at an engine with eight places; shares and streams: test/long/shares.test.ts. */
import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { MANY, SLOTS, sharesBed } from '../harness/shares-bed.js';

describe('at the places of one engine', () => {
  const { start, timesOf, untilPlayed, shareOf } = sharesBed();

  test('a batch of a lower priority number gets most of them, beside one with four times as many in flight', async () => {
    const late = await start('late', { max_in_flight: MANY, priority: 5 });
    await untilPlayed('late', 2 * SLOTS);
    const { outcome } = await start('urgent', { limit: 2 * SLOTS, priority: 1 });
    await outcome();
    const [began = 0] = await timesOf('urgent', 'generation');
    const ends = await timesOf('urgent', 'end');
    const got = await shareOf(['urgent', 'late'], [began + 0.5, ends.at(-SLOTS) ?? 0]);
    assert.ok(got > 0.5, `it got ${got.toFixed(2)} of the places; in order of arrival 0.2`);
    await late.handle.signal('stop');
    await late.handle.result();
  });
});
