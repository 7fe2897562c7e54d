import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import fc from 'fast-check';
import { ksTest } from '../../../lab/bench/kolmogorov-smirnov.js';

const LEFT = [
  0.61, 0.29, 0.06, 0.59, -1.73, -0.74, 0.51, -0.56, 0.39, 1.64, 0.05, -0.06, 0.64, -0.82, 0.37,
  1.77, 1.09, -1.28, 2.36, 1.31, 1.05, -0.32, -0.4, 1.06, -2.47,
];
const RIGHT = [
  -0.01, 0.83, 1.95, -0.93, 0.44, 1.19, 2.71, 0.67, 3.02, 1.44, 0.98, 2.13, -0.15, 1.52, 0.77,
];

const EVEN = Array.from({ length: 400 }, (_, i) => i / 400);
const bent = (power: number): number[] =>
  Array.from({ length: 600 }, (_, j) => ((j + 0.5) / 600) ** power);

function agree(value: number, expected: number): void {
  assert.ok(Math.abs(value / expected - 1) < 1e-9, `expected ${expected}, got ${value}`);
}

describe('the two-sample Kolmogorov-Smirnov test', () => {
  test('gives what scipy 1.17 gives, ks_2samp(method="exact"), from p 0.2 down to 1e-46', () => {
    const cases = [
      [LEFT, RIGHT, 0.4533333333333333, 0.030815135688068124],
      [EVEN, bent(1.2), 0.0675, 0.2173405110887323],
      [EVEN, bent(1.5), 0.14833333333333334, 4.693809292907316e-5],
      [EVEN, bent(2), 0.25, 1.2397002852158084e-13],
      [EVEN, EVEN.map((value) => value + 0.50125), 0.5025, 2.7342503001287616e-46],
    ] as const;
    for (const [a, b, statistic, p] of cases) {
      const result = ksTest(a, b);
      agree(result.statistic, statistic);
      agree(result.p, p);
    }
  });

  test('is exact with ties: its p is the share of all permutations that part the samples as far', () => {
    const values = fc.integer({ min: 0, max: 3 });
    fc.assert(
      fc.property(
        fc.array(values, { minLength: 1, maxLength: 5 }),
        fc.array(values, { minLength: 1, maxLength: 5 }),
        (a, b) => {
          agree(ksTest(a, b).p, permutationP(a, b));
        },
      ),
    );
  });

  test('refuses what is no sample', () => {
    assert.throws(() => ksTest([], [1]), /expected two samples, got an empty one/);
    assert.throws(() => ksTest([1], [NaN]), /expected numbers, got NaN/);
  });
});

/** By trying all ways to draw the first sample from the pooled values. */
function permutationP(a: readonly number[], b: readonly number[]): number {
  const pooled = [...a, ...b];
  const statistic = distance(a, b);
  let all = 0;
  let asFar = 0;
  for (let mask = 0; mask < 1 << pooled.length; mask++) {
    const left = pooled.filter((_, i) => (mask >> i) & 1);
    if (left.length !== a.length) continue;
    all += 1;
    const right = pooled.filter((_, i) => ((mask >> i) & 1) === 0);
    if (distance(left, right) >= statistic - 1e-12) asFar += 1;
  }
  return asFar / all;
}

function distance(a: readonly number[], b: readonly number[]): number {
  const share = (values: readonly number[], limit: number): number =>
    values.filter((value) => value <= limit).length / values.length;
  return Math.max(...[...a, ...b].map((limit) => Math.abs(share(a, limit) - share(b, limit))));
}
