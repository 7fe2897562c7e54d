import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import type { BatchProgress } from '../../src/activities/contract.js';
import type { Pace } from '../../src/client/pace.js';
import { NO_MOVES, NO_PACE, moved, paceOf } from '../../src/client/pace.js';

const RUNNING: BatchProgress = {
  phase: 'running',
  requested: 20,
  done: 0,
  running: 20,
  valid: 0,
  failed: 0,
  turns: 0,
  tokens: 0,
  reward_sum: 0,
  waiting: null,
  elapsed_s: 0,
  turns_per_s: 0,
  tokens_per_s: 0,
};
const WAITING = { service: 'engine', message: 'refused' };

type Answer = [at_s: number, change: Partial<BatchProgress>];
const paced = (...answers: Answer[]): Pace =>
  paceOf(
    answers.reduce(
      (moves, [at_s, change]) => moved(moves, { progress: { ...RUNNING, ...change }, at_s }),
      NO_MOVES,
    ),
  );

describe('the pace of a batch', () => {
  test('is what moved while it was watched, over the time in which it moved', () => {
    const pace = paced(
      [0, {}],
      [5, { turns: 10, tokens: 100, done: 2 }],
      [9, { turns: 10, tokens: 100, done: 2 }],
      [10, { turns: 30, tokens: 300, done: 5 }],
    );
    assert.deepEqual(pace, { done_per_s: 0.5, turns_per_s: 3, tokens_per_s: 30 });
  });

  test('is unknown until something has moved, and for rollouts until some have ended', () => {
    assert.deepEqual(paced(), NO_PACE);
    assert.deepEqual(paced([0, {}], [5, {}]), NO_PACE);
    assert.equal(paced([0, {}], [5, { tokens: 9, done: 1 }]).done_per_s, null);
  });

  test('counts nothing of what was played before', () => {
    const before: Answer = [0, { tokens: 50_000, turns: 500, done: 10 }];
    // The first step has gathered for an unknown time before the watching began.
    assert.deepEqual(paced(before, [1, { tokens: 51_000, turns: 510, done: 10 }]), NO_PACE);
    const pace = paced(
      before,
      [1, { tokens: 51_000, turns: 510, done: 10 }],
      [6, { tokens: 51_100, turns: 520, done: 10 }],
    );
    assert.deepEqual(pace, { done_per_s: null, turns_per_s: 2, tokens_per_s: 20 });
  });

  test('of a continued batch counts nothing of what an earlier run played and this one only counts again', () => {
    const of = (elapsed_s: number, tokens: number): Answer => [
      elapsed_s,
      { continued: true, elapsed_s, tokens, turns: tokens / 10 },
    ];
    const pace = paced(of(1, 0), of(5, 50_000), of(11, 50_000), of(15, 50_100), of(20, 50_200));
    assert.equal(pace.tokens_per_s, 20);
  });

  test('leaves out waits, and times without an answer', () => {
    const pace = paced(
      [0, {}],
      [5, { tokens: 100, done: 3 }],
      [6, { tokens: 100, done: 3, waiting: WAITING }],
      [300, { tokens: 100, done: 3, waiting: WAITING }],
      [301, { tokens: 100, done: 3 }],
      [401, { tokens: 100, done: 3 }],
    );
    assert.deepEqual([pace.done_per_s, pace.tokens_per_s], [0.6, 20]);
  });
});
