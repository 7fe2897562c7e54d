import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import fc from 'fast-check';
import {
  MOST_SLICES,
  mostSamples,
  slicesOf,
  talliesOf,
} from '../../../src/model/workflow-safe/slices.js';

describe('slicesOf', () => {
  const cases = [
    { samples: 1, num_repeats: 1, slices: [[0, 0]] },
    { samples: 128, num_repeats: 1, slices: [[0, 127]] },
    {
      samples: 129,
      num_repeats: 1,
      slices: [
        [0, 127],
        [128, 128],
      ],
    },
    { samples: 2, num_repeats: 64, slices: [[0, 1]] },
    {
      samples: 3,
      num_repeats: 64,
      slices: [
        [0, 1],
        [2, 2],
      ],
    },
    {
      samples: 4,
      num_repeats: 60,
      slices: [
        [0, 1],
        [2, 3],
      ],
    },
    {
      samples: 2,
      num_repeats: 128,
      slices: [
        [0, 0],
        [1, 1],
      ],
    },
    {
      samples: 2,
      num_repeats: 300,
      slices: [
        [0, 0],
        [1, 1],
      ],
    },
  ];
  for (const { slices, ...batch } of cases) {
    test(`${batch.samples} samples, ${batch.num_repeats} repeats: rows ${slices.map((slice) => slice.join(' to ')).join(', ')}`, () => {
      assert.deepEqual(
        slicesOf(batch.samples, batch).map(({ first, last }) => [first, last]),
        slices,
      );
    });
  }

  test('they cover every row once, in order, and hold at most 128 rollouts each, or one group', () => {
    fc.assert(
      fc.property(
        fc.integer({ min: 1, max: 252 }),
        fc.integer({ min: 1, max: 300 }),
        (samples, num_repeats) => {
          let next = 0;
          for (const { first, last } of slicesOf(samples, { num_repeats })) {
            assert.equal(first, next);
            assert.ok(last >= first);
            assert.ok(last === first || (last - first + 1) * num_repeats <= 128);
            next = last + 1;
          }
          assert.equal(next, samples);
        },
      ),
    );
  });
});

describe('the largest batch', () => {
  test('is 252 slices of 300 rollouts, or of as many whole groups as 300 rollouts hold', () => {
    assert.equal(MOST_SLICES, 252);
    const most = [1, 8, 65, 151, 300].map((num_repeats) => mostSamples({ num_repeats }));
    assert.deepEqual(most, [75_600, 252 * 37, 252 * 4, 252, 252]);
  });

  test('a batch up to it has at most 252 slices of at most 300 rollouts, which are 128 as long as that is enough', () => {
    fc.assert(
      fc.property(
        fc.integer({ min: 1, max: 300 }),
        fc.double({ min: 0, max: 1, noNaN: true }),
        (num_repeats, part) => {
          const samples = Math.max(1, Math.round(part * mostSamples({ num_repeats })));
          const slices = slicesOf(samples, { num_repeats });
          const rollouts = slices.map(({ first, last }) => (last - first + 1) * num_repeats);
          assert.ok(slices.length <= 252);
          assert.equal(
            rollouts.reduce((sum, count) => sum + count, 0),
            samples * num_repeats,
          );
          assert.ok(Math.max(...rollouts) <= 300);
          const groups = Math.max(1, Math.floor(128 / num_repeats));
          if (samples <= 252 * groups) assert.ok(Math.max(...rollouts) <= groups * num_repeats);
        },
      ),
    );
  });
});

describe('talliesOf', () => {
  test('a slice reports ten times, and less often where many slices report', () => {
    assert.deepEqual(
      [1, 34, 88, 89, 100, 150, 209, 252].map(talliesOf),
      [10, 10, 10, 9, 8, 4, 2, 1],
    );
  });

  test('the history of a batch of up to 252 slices stays under 5,000 events, at the worst event by event', () => {
    for (let slices = 1; slices <= 252; slices++) {
      // Start and end, share or stop, each tally: all with a workflow task of their own.
      const events = slices * (9 + 5 + 4 * talliesOf(slices));
      assert.ok(events <= 4800, `${events} events of ${slices} slices`);
    }
  });
});
