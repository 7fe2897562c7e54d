import assert from 'node:assert/strict';
import { test } from 'node:test';
import fc from 'fast-check';
import { boxReward, upstreamBoxReward } from '../../../src/environments/vlm/boxes.js';

const rewardFor = (ground_truth: string, answer: string | null): number =>
  boxReward({ ground_truth, answer, penalty_threshold: 10 });

test('corners in another order are no box, and worth what no box is worth', () => {
  const none = rewardFor('[0,0,1,1]', null);
  assert.equal(none, 0);
  for (const answer of [
    '[2,2,-100,-100]',
    '[2,0,-100,1]',
    '[0,2,1,-100]',
    '[1,1,0,0]',
    '[0,0,0,0]',
    '[0,0,1,0]',
    '[nan,nan,nan,nan]',
    '[-inf,-inf,inf,inf]',
    '[0,0,1e999,1]',
    '[0,0,1]',
    '[0,0,1,1,1]',
    'a,b,c,d',
    '',
  ])
    assert.equal(rewardFor('[0,0,1,1]', answer), none, answer);
});

test('upstream’s rule pays 10,404 for corners in another order', () => {
  const compared = { ground_truth: '[0,0,1,1]', answer: '[2,2,-100,-100]', penalty_threshold: 10 };
  assert.equal(Math.round(upstreamBoxReward(compared)), 10_404);
});

test('the ground truth itself is worth 1, however small, large or far away', () => {
  const corner = fc.tuple(
    fc.double({ noNaN: true, noDefaultInfinity: true }),
    fc.double({ noNaN: true, noDefaultInfinity: true }),
  );
  fc.assert(
    fc.property(corner, corner, ([x1, x2], [y1, y2]) => {
      fc.pre(x1 !== x2 && y1 !== y2);
      const box = [Math.min(x1, x2), Math.min(y1, y2), Math.max(x1, x2), Math.max(y1, y2)];
      const unit = Math.max(...box.map(Math.abs));
      const sides = [
        (box[2] ?? 0) / unit - (box[0] ?? 0) / unit,
        (box[3] ?? 0) / unit - (box[1] ?? 0) / unit,
      ];
      // An area that no double can hold has no share in another.
      fc.pre((sides[0] ?? 0) * (sides[1] ?? 0) > 1e-300);
      assert.equal(rewardFor(JSON.stringify(box), JSON.stringify(box)), 1);
    }),
  );
  assert.equal(rewardFor('[0,0,0.01,0.01]', '[0,0,0.01,0.01]'), 1);
});

test('every pair of texts is worth something from -1 to 1', () => {
  const extreme = fc.constantFrom(
    0,
    -0,
    1,
    5e-324,
    1e-300,
    1e-160,
    1e160,
    1e200,
    1e308,
    1.7e308,
    -1e308,
  );
  const number = fc.oneof(extreme, fc.double(), fc.integer({ min: -1000, max: 1000 }));
  const box = fc.array(number, { minLength: 4, maxLength: 4 }).map((all) => `[${all.join(',')}]`);
  const gold = fc
    .tuple(number, number, number, number)
    .map(
      ([x1, y1, x2, y2]) =>
        `[${[Math.min(x1, x2), Math.min(y1, y2), Math.max(x1, x2), Math.max(y1, y2)].join(',')}]`,
    );
  fc.assert(
    fc.property(fc.tuple(gold, box), fc.constantFrom(10, 0.5, 0, -1), (boxes, threshold) => {
      const [ground_truth, answer] = boxes;
      const reward = boxReward({ ground_truth, answer, penalty_threshold: threshold });
      assert.ok(reward >= -1 && reward <= 1, `${ground_truth} ${answer}: ${reward}`);
    }),
    { numRuns: 5000 },
  );
});
