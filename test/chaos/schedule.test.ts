import assert from 'node:assert/strict';
import { test } from 'node:test';
import fc from 'fast-check';
import { FAULTS } from '../../chaos/faults.js';
import { readOptions } from '../../chaos/options.js';
import { scheduleOf } from '../../chaos/schedule.js';

const OPTIONS = { seed: 7, fault: 'worker-kill', hits: 3, rollouts: 12, turns: 6, turn_ms: 900 };

test('a seed gives the same moments each time, another seed or another fault others', () => {
  assert.deepEqual(scheduleOf(OPTIONS), scheduleOf(OPTIONS));
  assert.notDeepEqual(scheduleOf({ ...OPTIONS, seed: 8 }), scheduleOf(OPTIONS));
  assert.notDeepEqual(scheduleOf({ ...OPTIONS, fault: 'engine-kill' }), scheduleOf(OPTIONS));
});

const plans = fc.record({
  seed: fc.nat(),
  hits: fc.integer({ min: 1, max: 8 }),
  turns: fc.integer({ min: 3, max: 6 }),
});

test('moments come in order, after the first turn and with a turn left to begin', () => {
  fc.assert(
    fc.property(plans, ({ seed, hits, turns: turns_each }) => {
      const moments = scheduleOf({ ...OPTIONS, seed, hits, turns: turns_each });
      const turns = moments.map(({ after_turns }) => after_turns);
      assert.equal(moments.length, hits);
      assert.deepEqual(
        turns.toSorted((a, b) => a - b),
        turns,
      );
      assert.ok(turns.every((after) => after >= 1 && after <= OPTIONS.rollouts * (turns_each - 2)));
      assert.ok(moments.every(({ delay_ms }) => delay_ms >= 0 && delay_ms < OPTIONS.turn_ms));
    }),
  );
});

test('faults have names of their own, and the short form has a few of several parts', () => {
  const names = FAULTS.map(({ name }) => name);
  assert.equal(new Set(names).size, names.length);
  const short = FAULTS.filter((fault) => fault.short !== null);
  assert.deepEqual(new Set(short.map(({ part }) => part)), new Set(['player', 'engine', 'store']));
});

test('options name their faults', () => {
  assert.deepEqual(readOptions(['--short', '--json', '--seed', '4']), {
    parts: { faults: true, kills: false, day: false },
    short: true,
    store: 'file',
    seed: 4,
    only: '',
    json: '-',
  });
  assert.equal(readOptions(['--json', 'out.json']).json, 'out.json');
  assert.equal(readOptions(['--only', 'kill']).only, 'kill');
  assert.equal(readOptions(['--store', 'postgres']).store, 'postgres');
  assert.throws(() => readOptions(['--store', 'x']), /--store: expected file or postgres, got x/);
  assert.throws(() => readOptions(['--sed', '4']), /unknown option --sed/);
  assert.throws(() => readOptions(['--seed', 'x']), /--seed: expected a whole number, got x/);
});
