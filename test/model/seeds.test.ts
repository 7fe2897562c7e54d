import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { seedOf } from '../../src/model/turn/seeds.js';
import { hash32 } from '../../src/model/workflow-safe/hash32.js';
import { GENERATION } from '../fakes/journal-lines.js';

const seeded = (seed: number | null) => ({
  generation: { ...GENERATION, seed },
  num_repeats_add_seed: false,
});
const ORIGIN = { row: 0, repeat: 0, turn: 0, inherited: 0 };

describe('seedOf', () => {
  test('without a seed none is sent', () => {
    assert.equal(seedOf(seeded(null), ORIGIN), null);
  });

  test('its values are these for ever: a seed that changed would change a published run', () => {
    assert.equal(seedOf(seeded(0), ORIGIN), 2345045743);
    assert.equal(seedOf(seeded(42), ORIGIN), 3182149286);
    assert.equal(seedOf(seeded(42), { row: 1, repeat: 2, turn: 3, inherited: 4 }), 723344900);
    assert.equal(seedOf(seeded(-1), ORIGIN), 4219416234);
  });

  test('equal places have equal seeds', () => {
    const place = { row: 3, repeat: 1, turn: 4, inherited: 7 };
    assert.equal(seedOf(seeded(5), place), seedOf(seeded(5), { ...place }));
  });

  test('every coordinate changes it', () => {
    const base = seedOf(seeded(5), ORIGIN);
    for (const coordinate of ['row', 'repeat', 'turn', 'inherited'] as const)
      assert.notEqual(seedOf(seeded(5), { ...ORIGIN, [coordinate]: 1 }), base, coordinate);
    assert.notEqual(seedOf(seeded(6), ORIGIN), base);
    assert.notEqual(seedOf(seeded(5 + 2 ** 32), ORIGIN), base);
  });

  test('the places of a large batch have distinct 32-bit seeds, but for what chance allows', () => {
    const seeds = new Set<number>();
    let places = 0;
    for (let row = 0; row < 100; row++)
      for (let repeat = 0; repeat < 8; repeat++)
        for (let turn = 0; turn < 10; turn++) {
          const seed = seedOf(seeded(1), { row, repeat, turn, inherited: 0 });
          assert.ok(seed !== null && Number.isInteger(seed) && seed >= 0 && seed < 2 ** 32);
          seeds.add(seed);
          places += 1;
        }
    // 8,000 draws of 2^32 collide 0.007 times on average.
    assert.ok(seeds.size >= places - 1, `${places - seeds.size} collisions`);
  });
});

describe('with num_repeats_add_seed', () => {
  const settings = { ...seeded(null), num_repeats_add_seed: true };

  test('every request of repeat r has seed r', () => {
    for (const repeat of [0, 1, 299])
      for (const turn of [0, 5])
        assert.equal(seedOf(settings, { row: 9, repeat, turn, inherited: 0 }), repeat);
  });

  test('a resumed request has another, of 32 bits, that depends on repeat and tokens inherited', () => {
    const at = (repeat: number, inherited: number) =>
      seedOf(settings, { row: 0, repeat, turn: 0, inherited });
    const seeds = [at(3, 1), at(3, 2), at(4, 1)];
    assert.equal(new Set(seeds).size, 3);
    for (const seed of seeds) assert.ok(seed !== null && seed !== 3 && seed < 2 ** 32);
    assert.equal(seeds[0], hash32([3, 1]));
  });
});

describe('with num_repeats_add_seed in a stream', () => {
  const seeds = (epoch: number | undefined, inherited = 0) =>
    Array.from({ length: 300 }, (_, repeat) =>
      seedOf(
        { ...seeded(null), num_repeats_add_seed: true, ...(epoch !== undefined && { epoch }) },
        { row: 7, repeat, turn: 2, inherited },
      ),
    );

  test('the first epoch has the seeds of a batch', () => {
    assert.deepEqual(seeds(0), seeds(undefined));
    assert.deepEqual(seeds(0, 5), seeds(undefined, 5));
    assert.equal(seeds(0)[3], 3);
  });

  test('no seed comes again in another epoch, among its members, or for a turn that was resumed', () => {
    const all = [0, 1, 2, 3].flatMap((epoch) => [...seeds(epoch), ...seeds(epoch, 5)]);
    assert.equal(new Set(all).size, all.length);
    for (const seed of all) assert.ok(seed !== null && Number.isInteger(seed) && seed < 2 ** 32);
    assert.deepEqual(seeds(2), seeds(2));
  });
});

describe('hash32', () => {
  test('order counts, and so does a zero at the end', () => {
    assert.notEqual(hash32([1, 2]), hash32([2, 1]));
    assert.notEqual(hash32([1]), hash32([1, 0]));
  });
});
