import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import fc from 'fast-check';
import { createSlots } from '../../src/activities/slots.js';
import { CROWDED_SLICE_MS, isSliceOver } from '../../src/activities/turn/play-turns.js';

const MS = fc.integer({ min: 0, max: 3_600_000 });

describe('a slice', () => {
  test('where nobody waits lasts as long as the setting says', () => {
    fc.assert(
      fc.property(MS, MS, (played_ms, turn_slice_ms) => {
        const isOver = isSliceOver({ played_ms, turn_slice_ms, isCrowded: false });
        assert.equal(isOver, played_ms >= turn_slice_ms);
      }),
    );
  });

  test('where all slots are taken lasts two seconds at most, and never longer than the setting', () => {
    fc.assert(
      fc.property(MS, MS, (played_ms, turn_slice_ms) => {
        const isOver = isSliceOver({ played_ms, turn_slice_ms, isCrowded: true });
        assert.equal(isOver, played_ms >= turn_slice_ms || played_ms >= CROWDED_SLICE_MS);
      }),
    );
    assert.equal(CROWDED_SLICE_MS, 2000);
  });
});

describe('slots', () => {
  test('are taken when as many attempts of their queue run, whatever other queues do', () => {
    const slots = createSlots(
      new Map([
        ['turns', 2],
        ['plans', 1],
      ]),
    );
    const leave = [slots.enter('turns'), slots.enter('plans'), slots.enter('elsewhere')];
    assert.deepEqual(['turns', 'plans', 'elsewhere'].map(slots.areTaken), [false, true, false]);
    leave.push(slots.enter('turns'));
    assert.equal(slots.areTaken('turns'), true);
    leave[0]?.();
    assert.equal(slots.areTaken('turns'), false);
  });
});
