import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import {
  EVENTS_OF_CHILD,
  eventsToCome,
  roomProblem,
} from '../../src/workflows/steering/event-budget.js';
import {
  openSlices,
  setShare,
  slicesProblem,
  tellLimits,
} from '../../src/workflows/children/open-slices.js';
import { lineUp } from '../../src/workflows/children/refill.js';
import { slicesOf, talliesOf } from '../../src/model/workflow-safe/slices.js';

const CHANGE = { max_rollout_turns: 3 };

describe('the history of a batch', () => {
  test('has room for an update up to 4,800 events, those that are still to come included', () => {
    const room = { where: 'step-17', has: 3000, toCome: 1500 };
    assert.equal(roomProblem({ ...room, costs: 300 }), null);
    assert.match(
      roomProblem({ ...room, costs: 301 }) ?? '',
      /^the history of step-17 has no room for it: 3000 events so far, up to 1500 .*, up to 301 of this update, expected at most 4800/,
    );
  });

  test('keeps the 14 events of each rollout: 5 until it runs, 4 for its end, 5 for a stop', () => {
    assert.equal(EVENTS_OF_CHILD, 14);
    assert.equal(eventsToCome({ starting: 2, running: 3 }), 2 * 14 + 3 * 9);
  });

  test('replaces a failed rollout only where it has room', () => {
    let hasRoom = false;
    const rows = { first: 0, last: 0 };
    const line = lineUp({ rows, num_repeats: 1, max_replacements: 5, hasRoom: () => hasRoom });
    line.next();
    line.failed({ row: 0, repeat: 0 });
    assert.deepEqual([line.isEmpty(), line.next(), line.waiting()], [true, null, 0]);
    hasRoom = true;
    assert.deepEqual([line.isEmpty(), line.next()], [false, { row: 0, repeat: 1, replaces: 0 }]);
  });
});

describe('the histories of slices', () => {
  const batchOf = (
    samples: number,
    change: { num_repeats?: number; max_in_flight?: number } = {},
  ) => {
    const { num_repeats = 1, max_in_flight = 256 } = change;
    const slices = slicesOf({ samples, num_repeats });
    const plan = { batch_id: 'b', samples, num_repeats, max_in_flight, slices, tallies: talliesOf(slices.length), min_k: null, refill: null, limits: { max_rollout_turns: 1, max_new_tokens: 1, max_seq_len: 1, rollout_timeout: '1h' }, continued: false }; // prettier-ignore
    const open = openSlices(plan, { tell: () => undefined, has: () => 0 });
    return { plan, open, has: 20 };
  };

  test('of 10,000 rollouts have room for a change of limits from the beginning', () => {
    assert.equal(slicesProblem(batchOf(10_000), { limits: CHANGE }), null);
    assert.equal(slicesProblem(batchOf(10_000), { max_in_flight: 1 }), null);
  });

  test('have room for so many changes, each of which every rollout that runs is told', () => {
    const batch = batchOf(256);
    // 128 in flight of each: 4 + 5 × 128 events, beside 128 × 14.
    for (let taken = 0; taken < 4; taken++) {
      assert.equal(slicesProblem(batch, { limits: CHANGE }), null);
      for (const slice of batch.open.values()) tellLimits(slice, CHANGE);
    }
    assert.match(
      slicesProblem(batch, { limits: CHANGE }) ?? '',
      /^the history of the slice from row 0 on has no room/,
    );
    assert.equal(slicesProblem(batch, { max_in_flight: 64 }), null);
  });

  test('are charged for the most that a slice had in flight', () => {
    const batch = batchOf(129, { max_in_flight: 2 });
    const [slice] = batch.open.values();
    setShare(slice!, { in_flight: 100, replacements: null });
    setShare(slice!, { in_flight: 1, replacements: null });
    tellLimits(slice!, CHANGE);
    assert.equal(slice!.events.spent, 4 + 4 + 4 + 5 * 100);
  });

  test('count the batch’s own for each slice that has to be told', () => {
    const batch = { ...batchOf(10_000), has: 400 };
    assert.match(
      slicesProblem(batch, { limits: CHANGE }) ?? '',
      /^the history of b has no room for it: 400 events/,
    );
    // 256 are shared as 4 and 3; of 257 one more slice has 4.
    assert.equal(slicesProblem(batch, { max_in_flight: 257 }), null);
  });
});
