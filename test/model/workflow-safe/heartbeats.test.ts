import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import fc from 'fast-check';
import { heartbeatFor, heartbeatWithin } from '../../../src/model/workflow-safe/heartbeats.js';

/** As `attempt.ts` has it. */
const BEATS_A_TIMEOUT = 3;

describe('the heartbeat timeout of a batch', () => {
  const least = { heartbeat_timeout_ms: 30_000, heartbeat_grows: true };

  test('is the usual one up to 1,000 rollouts at once, and grows until a lost task would wait for ten minutes', () => {
    assert.deepEqual(
      [1, 256, 1000, 10_000, 20_000, 75_600].map((in_flight) => heartbeatFor(least, in_flight)),
      [30_000, 30_000, 30_000, 300_000, 600_000, 600_000],
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

  test('is a tenth of the time that is left, so that a lost task never costs a rollout its deadline', () => {
    const minute = 60_000;
    assert.deepEqual(
      [45_000, 2 * minute, 5 * minute, 60 * minute].map((left) => heartbeatWithin(30_000, left)),
      [5000, 12_000, 30_000, 30_000],
    );
    assert.equal(heartbeatWithin(600_000, 60 * minute), 360_000);
    assert.equal(heartbeatWithin(600_000, minute), 60_000, 'at most ten times as many beats');
    assert.equal(heartbeatWithin(3000, minute), 3000, 'somebody has set it');
  });
});
