import { createPassCounts, type Answer, type PassCounts } from './pass-at-k.js';

/** A rollout as `/verify` answered it: `reward`, and what else a benchmark puts there. */
export type VerifyResponse = Readonly<Record<string, unknown>>;

/** Named scores of a rollout; a name may be missing. Booleans count as 0 and 1. */
export type ScoreFunction = (response: VerifyResponse) => Record<string, number | boolean>;

export interface PassOptions {
  /** Default: `accuracy`, the reward. */
  scores?: ScoreFunction;
  /** The field of the extracted answer: with it there are `majority@k` and the score `no_answer`. */
  answer_key?: string;
}

/** Flat, in upstream's order; `per_sample_aggregate` has a list per score. */
export type PassMetrics = Record<string, number | Record<string, number[]>>;

export interface PassResult {
  metrics: PassMetrics;
  /** Sorted. */
  score_names: string[];
  max_k: number;
  /** `pass@1[avg-of-k]/<score>/avg_sample_std_dev`, which upstream adds on request. */
  sample_std_dev: Record<string, number>;
}

const accuracy: ScoreFunction = ({ reward }) => {
  if (typeof reward === 'number' || typeof reward === 'boolean') return { accuracy: reward };
  throw new Error(`expected a rollout with a number as reward, got ${JSON.stringify(reward)}`);
};

/** Upstream's `compute_pass_majority_metrics`: `tasks[i]` are the rollouts of task i. All but spreads in percent. */
export function passMetrics(
  tasks: readonly (readonly VerifyResponse[])[],
  { scores = accuracy, answer_key }: PassOptions = {},
): PassResult {
  const scored = tasks.map((rollouts) =>
    rollouts.map((rollout) => {
      const answered = answer_key !== undefined && (rollout[answer_key] ?? null) !== null;
      return answer_key === undefined
        ? scores(rollout)
        : { ...scores(rollout), no_answer: !answered };
    }),
  );
  const names = [...new Set(scored.flat().flatMap((rollout) => Object.keys(rollout)))].sort();
  const max_k = tasks.reduce((most, { length }) => Math.max(most, length), 0);
  const counts = new Map(names.map((name) => [name, createPassCounts()]));
  for (const [name, count] of counts) {
    scored.forEach((rollouts, task) => {
      const values = rollouts.map((rollout) => {
        // A score may be called as what every object has.
        return Object.hasOwn(rollout, name) ? Number(rollout[name]) : null;
      });
      const answers = tasks[task]?.map((rollout) => rollout[answer_key ?? ''] as Answer);
      count.add(values, answer_key === undefined ? undefined : answers);
    });
  }
  return tasks.length === 0
    ? { metrics: {}, score_names: [], max_k: 0, sample_std_dev: {} }
    : { ...passResult(counts, max_k), score_names: names, max_k };
}

/** The metrics of scores whose tasks have been counted. */
export function passResult(
  counts: ReadonlyMap<string, PassCounts>,
  max_k: number,
): Pick<PassResult, 'metrics' | 'sample_std_dev'> {
  const scores = [...counts].map(([name, count]) => ({ name, ...count.percentages(max_k) }));
  const metrics: PassMetrics = {};
  const sample_std_dev: Record<string, number> = {};
  const put = (into: Record<string, unknown>, [name, value]: [string, number | null]): void => {
    if (value !== null) into[name] = value;
  };
  for (let k = 1; k <= max_k; k++) {
    for (const { name, pass, average, majority } of scores) {
      put(metrics, [`pass@${k}/${name}`, pass[k - 1] ?? null]);
      put(metrics, [`pass@1[avg-of-${k}]/${name}`, average[k - 1] ?? null]);
      put(metrics, [`majority@${k}/${name}`, majority[k - 1] ?? null]);
    }
  }
  metrics['per_sample_aggregate'] = Object.fromEntries(
    scores.flatMap(({ name, runs }) => (runs.length === 0 ? [] : [[name, runs]])),
  );
  for (let k = 2; k <= max_k; k++) {
    for (const { name, runs, sample_std_dev: spreads } of scores) {
      const spread = acrossRuns(runs.slice(0, k));
      put(metrics, [`pass@1[avg-of-${k}]/${name}/std_dev_across_runs`, spread?.std_dev ?? null]);
      put(metrics, [`pass@1[avg-of-${k}]/${name}/std_err_across_runs`, spread?.std_err ?? null]);
      const own = spreads[k - 1] ?? null;
      put(sample_std_dev, [`pass@1[avg-of-${k}]/${name}/avg_sample_std_dev`, own]);
    }
  }
  return { metrics, sample_std_dev };
}

function acrossRuns(runs: number[]): { std_dev: number; std_err: number } | null {
  if (runs.length < 2) return null;
  const mean = runs.reduce((sum, run) => sum + run, 0) / runs.length;
  const squares = runs.reduce((sum, run) => sum + (run - mean) ** 2, 0);
  const std_dev = Math.sqrt(squares / (runs.length - 1));
  return { std_dev, std_err: std_dev / Math.sqrt(runs.length) };
}
