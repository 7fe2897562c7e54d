import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import fc from 'fast-check';
import type { Metrics } from '../../src/model/results/metrics.js';
import { computeMetrics } from '../../src/model/results/metrics.js';
import { near, summaryOf } from '../fakes/summaries.js';

/** Rewards by group; null is a rollout that failed. */
function metricsOf(groups: (number | null)[][]): Metrics {
  const summaries = groups.flatMap((rewards, row) =>
    rewards.map((reward, repeat) =>
      summaryOf({
        row,
        repeat,
        reward: reward ?? -99,
        stop_reason: reward === null ? 'failed' : 'terminated',
      }),
    ),
  );
  return computeMetrics(summaries, 'standard');
}

/** The share of all choices of k of the group's rollouts that hold a solved one. */
function passByBruteForce(rewards: readonly number[], k: number): number {
  let choices = 0;
  let solved = 0;
  for (let mask = 0; mask < 2 ** rewards.length; mask++) {
    const chosen = rewards.filter((_, i) => (mask >> i) & 1);
    if (chosen.length !== k) continue;
    choices += 1;
    if (chosen.includes(1)) solved += 1;
  }
  return solved / choices;
}

describe('pass@k', () => {
  test('of binary rewards is the unbiased estimator: the share of all choices of k with a solved one', () => {
    fc.assert(
      fc.property(fc.array(fc.constantFrom(0, 1), { minLength: 1, maxLength: 10 }), (rewards) => {
        const metrics = metricsOf([rewards]);
        const ks = [1, 2, 4, 8].filter((k) => k < rewards.length);
        for (const k of [...ks, rewards.length])
          near(metrics[`pass@${k}`], passByBruteForce(rewards, k));
      }),
    );
  });

  test('of other rewards is the best of the first k repeats', () => {
    const metrics = metricsOf([[0.2, 0.9, 0.1, 1.5]]);
    assert.equal(metrics['pass@1'], 0.2);
    assert.equal(metrics['pass@2'], 0.9);
    assert.equal(metrics['pass@4'], 1.5);
  });

  test('k goes through the powers of two and the size of the largest group', () => {
    const names = Object.keys(metricsOf([[0, 0, 0, 0, 0, 0]]));
    assert.deepEqual(
      names.filter((name) => name.startsWith('pass@')),
      ['pass@1', 'pass@2', 'pass@4', 'pass@6'],
    );
  });

  test('a group with fewer valid rollouts than k is left out of it', () => {
    const metrics = metricsOf([
      [1, 1, 1, 1],
      [0, null, null, 0],
    ]);
    assert.equal(metrics['pass@1'], 0.5);
    assert.equal(metrics['pass@2'], 0.5);
    assert.equal(metrics['pass@4'], 1);
  });

  test('avg@k is the mean of the first k repeats, in their order', () => {
    const metrics = metricsOf([[1, 0, 0, 0]]);
    assert.equal(metrics['avg@1'], 1);
    assert.equal(metrics['avg@2'], 0.5);
    assert.equal(metrics['avg@4'], 0.25);
    const turned = [3, 1, 0, 2].map((repeat) =>
      summaryOf({ repeat, reward: repeat === 0 ? 1 : 0 }),
    );
    assert.equal(computeMetrics(turned, 'standard')['avg@1'], 1);
  });
});

describe('groups', () => {
  test('are counted as solved by all, by none, and without variance', () => {
    const metrics = metricsOf([
      [1, 1],
      [0, 0],
      [0, 1],
      [0.5, 0.5],
    ]);
    assert.equal(metrics['group/count'], 4);
    assert.equal(metrics['group/solve_all_rate'], 0.5);
    assert.equal(metrics['group/solve_none_rate'], 0.25);
    assert.equal(metrics['group/zero_variance_rate'], 0.75);
  });

  test('their failed members count neither for nor against', () => {
    const metrics = metricsOf([
      [1, null, 1],
      [null, null, 0],
    ]);
    assert.equal(metrics['group/count'], 2);
    assert.equal(metrics['group/solve_all_rate'], 0.5);
    assert.equal(metrics['group/solve_none_rate'], 0.5);
    assert.equal(metrics['mean_total_reward'], 2 / 3);
  });

  test('without a valid member are none', () => {
    assert.equal(metricsOf([[null, null], [1]])['group/count'], 1);
  });

  test('are flat, solved and binary where the float32 of a trainer is, whatever a double says', () => {
    const flat = metricsOf([[0.1 + 0.2, 0.3, 0.3]]);
    assert.equal(flat['group/zero_variance_rate'], 1);
    assert.equal(metricsOf([[0.3, 0.30000004]])['group/zero_variance_rate'], 0);
    // 1e-60 is 0 in float32.
    const tiny = metricsOf([[1e-60, 0]]);
    assert.equal(tiny['group/solve_none_rate'], 1);
    assert.equal(tiny['group/zero_variance_rate'], 1);
    assert.equal(metricsOf([[1e-60, 1]])['group/solve_all_rate'], 0);
    // The sum of three components, 0.9999999999999999, is 1 in float32: two of three are right.
    near(metricsOf([[0, 0.7 + 0.2 + 0.1, 1]])['pass@1'], 2 / 3);
  });

  test('a negative reward is not solved', () => {
    assert.equal(metricsOf([[-1, -1]])['group/solve_none_rate'], 1);
  });
});
