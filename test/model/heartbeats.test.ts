import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import fc from 'fast-check';
import { heartbeatFor } from '../../src/model/heartbeats.js';

/** As `attempt.ts` has it. */
const BEATS_A_TIMEOUT = 3;

describe('the heartbeat timeout of a batch', () => {
  const least = { heartbeat_timeout_ms: 60_000, heartbeat_grows: true };

  test('is the usual one up to 2,000 rollouts at once, and grows until a lost task would wait for ten minutes', () => {
    assert.deepEqual(
      [1, 256, 2000, 10_000, 20_000, 75_600].map((in_flight) => heartbeatFor(least, in_flight)),
      [60_000, 60_000, 60_000, 300_000, 600_000, 600_000],
    );
  });

  test('keeps beats below a hundred a second, up to 20,000 rollouts', () => {
    fc.assert(
      fc.property(fc.integer({ min: 1, max: 20_000 }), (in_flight) => {
        const beats_s = (BEATS_A_TIMEOUT * 1000 * in_flight) / heartbeatFor(least, in_flight);
        assert.ok(beats_s <= 100, `${beats_s}`);
      }),
    );
  });

  test('is as somebody has set it, or as it must be where nobody sees deaths, however many there are', () => {
    const fixed = { heartbeat_timeout_ms: 10_000, heartbeat_grows: false };
    assert.equal(heartbeatFor(fixed, 75_600), 10_000);
  });
});
