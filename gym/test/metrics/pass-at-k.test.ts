import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import fc from 'fast-check';
import {
  createPassCounts,
  passMetrics,
  type ExtractedAnswer,
  type PassMetrics,
} from '../../metrics/statistics/pass-at-k.js';
import { highestK } from '../../metrics/statistics/reward-passes.js';
import { gymMetricsGoldens, plain } from './goldens.js';

/** A rollout as an agent's `/verify` answers it. */
type Verified = Readonly<Record<string, unknown>>;
type Metrics = PassMetrics['metrics'];
type ScoreFunction = (verified: Verified) => Record<string, number>;

/** A boolean reward is a number, as in the table of a file's results. */
const rewardOf = ({ reward }: Verified): number => Number(reward);

interface Golden {
  tasks: Verified[][];
  score_fn: string;
  answer_key: string | null;
  expected: {
    metrics: Metrics;
    score_names: string[];
    max_k: number;
    with_avg_sample_std_dev: Record<string, number>;
    highest_k: Record<string, Metrics>;
  };
}

/** The functions that the goldens name in words. */
const SCORES: Record<string, ScoreFunction | undefined> = {
  '{accuracy: reward}': (verified) => ({ accuracy: rewardOf(verified) }),
  '{accuracy: reward, ok: ok ?? false}': (verified) => ({
    accuracy: rewardOf(verified),
    ok: Number(verified['ok'] ?? false),
  }),
  '{reward, score} where present': ({ reward, score }) => ({
    ...(reward === undefined ? {} : { reward: reward as number }),
    ...(score === undefined ? {} : { score: score as number }),
  }),
};

interface Counted extends PassMetrics {
  score_names: string[];
  max_k: number;
}

/** Counts `tasks[i]`, the rollouts of task i, by every score. */
function counted(
  tasks: readonly (readonly Verified[])[],
  { scores, answer_key }: { scores: ScoreFunction; answer_key: string | null },
): Counted {
  const answerOf = (rollout: Verified) => (rollout[answer_key ?? ''] ?? null) as ExtractedAnswer;
  const scored = tasks.map((rollouts) =>
    rollouts.map((rollout) => ({
      ...scores(rollout),
      ...(answer_key !== null && { no_answer: Number(answerOf(rollout) === null) }),
    })),
  );
  const score_names = [...new Set(scored.flat().flatMap((rollout) => Object.keys(rollout)))].sort();
  const max_k = Math.max(0, ...tasks.map(({ length }) => length));
  const counts = new Map(score_names.map((name) => [name, createPassCounts(max_k)]));
  for (const [name, count] of counts) {
    scored.forEach((rollouts, task) => {
      const values = rollouts.map((rollout: Record<string, number>) => {
        const value = rollout[name];
        return value === undefined ? null : { value, whole: Number.isInteger(value) };
      });
      const answers = answer_key === null ? undefined : tasks[task]?.map(answerOf);
      count.add(values, answers);
    });
  }
  return { ...passMetrics(counts, max_k), score_names, max_k };
}

/** The metrics of tasks by their rewards. */
const ofRewards = (tasks: readonly (readonly Verified[])[], answer_key: string | null = null) =>
  counted(tasks, { scores: (verified) => ({ accuracy: rewardOf(verified) }), answer_key }).metrics;

function assertMetrics(actual: Metrics, expected: Metrics): void {
  assert.deepEqual(Object.keys(actual), Object.keys(expected));
  const numbers = (metrics: Metrics): [string, number][] =>
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
      const scores = SCORES[score_fn] ?? assert.fail(`no score function ${score_fn}`);
      const { metrics, score_names, max_k, sample_std_dev } = counted(tasks, {
        scores,
        answer_key,
      });
      assertMetrics(metrics, expected.metrics);
      assert.deepEqual(score_names, expected.score_names);
      assert.equal(max_k, expected.max_k);
      assertMetrics(sample_std_dev, expected.with_avg_sample_std_dev);
      for (const [pattern, highest] of Object.entries(expected.highest_k)) {
        assertMetrics(highestK(metrics, pattern), highest);
      }
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
        assertMetrics(ofRewards(other, 'answer'), ofRewards(list, 'answer'));
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
              ofRewards([own.map((reward) => ({ reward }))])[`pass@${k + 1}/accuracy`] as number,
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
