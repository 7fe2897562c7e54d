import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { roomProblem } from '../../src/workflows/steering/event-budget.js';
import {
  openSlices,
  sendLimits,
  setShare,
  slicesProblem,
} from '../../src/workflows/children/open-slices.js';
import { slicesOf, talliesOf } from '../../src/model/workflow-safe/slices.js';

const CHANGE = { max_rollout_turns: 3 };

describe('the history of a batch', () => {
  test('accepts an update while it is below 10,000 events, its five for each signal included', () => {
    const batch = { workflowId: 'step-17', historyLength: 9000 };
    assert.equal(roomProblem(batch, 199), null);
    assert.match(
      roomProblem(batch, 200) ?? '',
      /^the history of step-17 has no room for this update: it has up to 9000 events, the update adds up to 1000, expected fewer than 10000 in all\. Earlier limits stay in force$/,
    );
  });
});

describe('the histories of slices', () => {
  const batch = { workflowId: 'b', historyLength: 20 };
  const slicesOfBatch = (samples: number, max_in_flight = 256) => {
    const slices = slicesOf(samples, { num_repeats: 1 });
    const limits = {
      max_rollout_turns: 1,
      max_new_tokens: 1,
      max_seq_len: 1,
      rollout_timeout: '1h',
    };
    const tallies = talliesOf(slices.length);
    const plan = {
      batch_id: 'b',
      samples,
      num_repeats: 1,
      max_in_flight,
      slices,
      tallies,
      min_k: null,
      refill: null,
      limits,
      continued: false,
    };
    return openSlices(plan);
  };

  test('have room for twelve changes, each of which is signalled to every running rollout', () => {
    const open = slicesOfBatch(10_000);
    // 128 rollouts: 30 + 14 × 128 events alone, and 4 + 5 × 128 for each change.
    for (let taken = 0; taken < 12; taken++) {
      assert.equal(slicesProblem(open, { batch, limits: CHANGE }), null);
      for (const slice of open.values()) void sendLimits(slice, CHANGE);
    }
    assert.match(
      slicesProblem(open, { batch, limits: CHANGE }) ?? '',
      /^the history of the slice from row 0 on has no room for this update: it has up to 9550 events, the update adds up to 644/,
    );
    assert.equal(slicesProblem(open, { batch, max_in_flight: 64 }), null);
  });

  test('count each share that is passed on, and none that stays as it is', () => {
    const [slice] = slicesOfBatch(129, 2).values();
    const before = slice!.events;
    setShare(slice!, { in_flight: 100, replacements: null });
    setShare(slice!, { in_flight: 100, replacements: null });
    setShare(slice!, { in_flight: 1, replacements: null });
    assert.equal(slice!.events - before, 4 + 4);
  });

  test('do not matter where the batch’s own has no room', () => {
    const open = slicesOfBatch(10_000);
    const long = { workflowId: 'b', historyLength: 9700 };
    assert.match(
      slicesProblem(open, { batch: long, max_in_flight: 1 }) ?? '',
      /^the history of b has no room for this update: it has up to 9700 events, the update adds up to 395/,
    );
  });
});
