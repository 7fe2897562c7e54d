import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import fc from 'fast-check';
import { highestK } from '../../metrics/statistics/highest-k.js';
import {
  passMetrics,
  type PassMetrics,
  type ScoreFunction,
  type VerifyResponse,
} from '../../metrics/statistics/pass-metrics.js';
import { subsetMetrics } from '../../metrics/subset-metrics.js';
import { gymMetricsGoldens, plain } from './goldens.js';

interface Golden {
  tasks: VerifyResponse[][];
  score_fn: string;
  answer_key: string | null;
  expected: {
    metrics: PassMetrics;
    score_names: string[];
    max_k: number;
    with_avg_sample_std_dev: Record<string, number>;
    highest_k: Record<string, PassMetrics>;
    highest_k_exclude_no_answer: PassMetrics;
    highest_k_only_accuracy: PassMetrics;
    subset_by_difficulty: PassMetrics;
    error?: { type: string; message: string };
  };
}

/** The functions that the goldens name in words. */
const SCORES: Record<string, ScoreFunction | undefined> = {
  '{accuracy: reward}': undefined,
  '{accuracy: reward, ok: ok ?? false}': ({ reward, ok }) => ({
    accuracy: reward as number,
    ok: (ok as boolean | undefined) ?? false,
  }),
  '{reward, score} where present': ({ reward, score }) => ({
    ...(reward === undefined ? {} : { reward: reward as number }),
    ...(score === undefined ? {} : { score: score as number }),
  }),
};

function assertMetrics(actual: PassMetrics, expected: PassMetrics): void {
  assert.deepEqual(Object.keys(actual), Object.keys(expected));
  const numbers = (metrics: PassMetrics): [string, number][] =>
    Object.entries(metrics).flatMap(([key, value]) =>
      typeof value === 'number'
        ? [[key, value] as [string, number]]
        : Object.entries(value).flatMap(([name, runs]) =>
            runs.map((run, index): [string, number] => [`${name}[${index}]`, run]),
          ),
    );
  const found = numbers(actual);
  numbers(expected).forEach(([key, value], index) => {
    const [name, got = Number.NaN] = found[index] ?? [];
    assert.equal(name, key);
    assert.ok(
      Math.abs(got - value) <= 1e-9 * Math.max(1, Math.abs(value)),
      `${key}: ${got}, ${value}`,
    );
  });
}

describe('pass@k, majority@k and their spreads', () => {
  for (const { name, golden } of gymMetricsGoldens('passk_')) {
    test(`${name} comes out as upstream's`, () => {
      const { tasks, score_fn, answer_key, expected } = plain(golden) as Golden;
      assert.ok(score_fn in SCORES, score_fn);
      const scores = SCORES[score_fn];
      const options = {
        ...(scores === undefined ? {} : { scores }),
        ...(answer_key === null ? {} : { answer_key }),
      };
      if (expected.error !== undefined) {
        assert.throws(
          () => passMetrics(tasks, options),
          /expected a rollout with a number as reward/,
        );
        return;
      }
      const { metrics, score_names, max_k, sample_std_dev } = passMetrics(tasks, options);
      assertMetrics(metrics, expected.metrics);
      assert.deepEqual(score_names, expected.score_names);
      assert.equal(max_k, expected.max_k);
      assertMetrics(sample_std_dev, expected.with_avg_sample_std_dev);
      for (const [pattern, highest] of Object.entries(expected.highest_k)) {
        assertMetrics(highestK(metrics, { pattern }), highest);
      }
      const pattern = 'pass@{k}';
      assertMetrics(
        highestK(metrics, { pattern, exclude: ['no_answer'] }),
        expected.highest_k_exclude_no_answer,
      );
      assertMetrics(
        highestK(metrics, { pattern, only: ['accuracy'] }),
        expected.highest_k_only_accuracy,
      );
      const subsets = subsetMetrics(tasks, { ...options, subset_key: 'difficulty' });
      assertMetrics(subsets, expected.subset_by_difficulty);
    });
  }

  test('the order of tasks changes nothing', () => {
    const rollout = fc.record({
      reward: fc.constantFrom(0, 0.5, 1),
      answer: fc.constantFrom('a', 'b', null),
    });
    const tasks = fc.array(fc.array(rollout, { maxLength: 5 }), { minLength: 1, maxLength: 8 });
    const shuffled = tasks.chain((list) =>
      fc.tuple(fc.constant(list), fc.shuffledSubarray(list, { minLength: list.length })),
    );
    fc.assert(
      fc.property(shuffled, ([list, other]) => {
        const options = { answer_key: 'answer' };
        assertMetrics(passMetrics(other, options).metrics, passMetrics(list, options).metrics);
      }),
    );
  });

  test('pass@k of binary scores does not depend on the order of rollouts and never falls as k grows', () => {
    const rewards = fc.array(fc.constantFrom(0, 1), { minLength: 1, maxLength: 12 });
    fc.assert(
      fc.property(rewards, (list) => {
        const at = (own: number[]): number[] =>
          own.map(
            (_, k) =>
              passMetrics([own.map((reward) => ({ reward }))]).metrics[
                `pass@${k + 1}/accuracy`
              ] as number,
          );
        const values = at(list);
        assert.deepEqual(at([...list].sort()), values);
        values.slice(1).forEach((value, index) => {
          assert.ok(value >= (values[index] ?? 0));
        });
      }),
    );
  });
});
