/** What the board counts of a batch that was started again. */
import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { ofAllRuns } from '../../src/workflows/views/batch-view.js';

const NONE = { valid: 0, reward_sum: 0 };

describe('the counts of a batch', () => {
  test('have what an earlier run has played at once, before this run has come to it', () => {
    const ended = { valid: 1900, reward_sum: 950 };
    const of = (done: number, valid: number) =>
      ofAllRuns({ done, valid, reward_sum: valid / 2 }, { ended, requested: 2000 });
    assert.deepEqual(of(0, 0), { done: 1900, valid: 1900, reward_sum: 950 });
    assert.deepEqual(of(12, 10), { done: 1902, valid: 1900, reward_sum: 950 }, 'two have failed');
    assert.deepEqual(of(1999, 1990), { done: 1999, valid: 1990, reward_sum: 995 });
  });

  test('are those of this run as long as journals have no more, and never more than were asked for', () => {
    const tally = { done: 5, valid: 4, reward_sum: 2 };
    assert.deepEqual(ofAllRuns(tally, { ended: NONE, requested: 8 }), tally);
    const ended = { valid: 8, reward_sum: 8 };
    assert.deepEqual(ofAllRuns(tally, { ended, requested: 8 }), { ...ended, done: 8 });
  });
});
