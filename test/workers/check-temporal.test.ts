import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { secondsSince } from '../../src/platform/pollers.js';
import { workerFinding } from '../../src/workers/check/check-temporal.js';

const NOW = Date.UTC(2026, 0, 1);
const judged = (...ages: number[]) =>
  workerFinding(
    secondsSince(
      ages.map((age) => ({ lastAccessTime: { seconds: String(NOW / 1000 - age) } })),
      NOW,
    ),
    { role: 'generation', file: 'their own.yaml' },
  );

describe('a task queue', () => {
  test('has a worker that waits if one asked within the 60 s that an idle one is silent', () => {
    const said = { state: 'ok', what: 'a worker asked for tasks 61 s ago (generation)' };
    assert.deepEqual(judged(61), said);
    assert.deepEqual(judged(290, 61, 120), said);
  });

  test('whose workers all are silent for longer may have none', () => {
    assert.deepEqual(judged(290, 101), {
      state: 'limited',
      what: 'last asked by a worker 101 s ago; it may be gone',
      remedy: "start one with role generation: temporal-rollout worker --config 'their own.yaml'",
    });
  });

  test('that nobody asks has none', () => {
    assert.match(judged().what, /^no worker waits/);
  });

  test('of a server whose clock is ahead was asked just now', () => {
    assert.match(judged(-40).what, / 0 s ago/);
  });
});
