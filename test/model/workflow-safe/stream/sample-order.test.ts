import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import fc from 'fast-check';
import { placeOfGroup } from '../../../../src/model/workflow-safe/stream/sample-order.js';

const epochOf = (
  epoch: number,
  { samples, seed = 0, shuffle = true }: { samples: number; seed?: number; shuffle?: boolean },
): number[] =>
  Array.from({ length: samples }, (_, at) => {
    const place = placeOfGroup(epoch * samples + at, { samples, seed, shuffle });
    assert.equal(place.epoch, epoch);
    return place.sample_row;
  });

describe('the order of samples', () => {
  test('plays each of them once in an epoch', () => {
    fc.assert(
      fc.property(
        fc.record({
          samples: fc.integer({ min: 1, max: 300 }),
          epoch: fc.nat(1000),
          seed: fc.maxSafeInteger(),
          shuffle: fc.boolean(),
        }),
        ({ epoch, ...order }) => {
          const rows = epochOf(epoch, order);
          assert.deepEqual(
            rows.toSorted((a, b) => a - b),
            Array.from({ length: order.samples }, (_, row) => row),
          );
          if (!order.shuffle) assert.ok(rows.every((row, at) => row === at));
        },
      ),
    );
  });

  test('its values never change: a stream that continues keeps its order', () => {
    assert.deepEqual(epochOf(0, { samples: 8 }), [5, 7, 3, 2, 0, 4, 6, 1]);
    assert.deepEqual(epochOf(1, { samples: 8 }), [4, 7, 2, 1, 6, 3, 5, 0]);
    assert.deepEqual(epochOf(0, { samples: 8, seed: 1 }), [4, 2, 5, 3, 7, 0, 1, 6]);
    const far = { samples: 1_000_003, shuffle: true, seed: 42 };
    assert.deepEqual(placeOfGroup(12_345_678_901, far), { sample_row: 674_386, epoch: 12_345 });
  });

  test('an epoch of few samples has each order equally often', () => {
    const epochs = 3000;
    for (const samples of [2, 3, 4]) {
      const counts = new Map<string, number>();
      for (let epoch = 0; epoch < epochs; epoch++) {
        const order = epochOf(epoch, { samples, seed: 7 }).join();
        counts.set(order, (counts.get(order) ?? 0) + 1);
      }
      const orders = [1, 2, 6, 24][samples - 1]!;
      const expected = epochs / orders;
      const chi2 = [...counts.values()].reduce((sum, n) => sum + (n - expected) ** 2 / expected, 0);
      assert.equal(counts.size, orders);
      // Chance exceeds 60 with 23 degrees of freedom once in 25,000 times; the seed is always the same.
      assert.ok(chi2 < 60, `${samples} samples: chi² ${chi2}`);
    }
  });
});
