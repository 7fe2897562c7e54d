/** One score in one task: a value per rollout, in order; null if the rollout has no such score. */
export type Scores = readonly (number | null)[];

/** An extracted answer; null: none. */
export type ExtractedAnswer = string | number | boolean | null;

/** Running sums of one score over tasks; k counts from 1. */
export interface PassCounts {
  /** Adds one task; with its answers there is also a majority. */
  add(scores: Scores, answers?: readonly ExtractedAnswer[]): void;
  /** Means over tasks, times 100, at index k - 1; null: no task has a value there. */
  percentages(max_k: number): PassPercentages;
}

export interface PassPercentages {
  /**
   * Binary scores: 1 - C(wrong, k) / C(all, k); others: the best of the first k. Tasks with fewer rollouts do not
   * count.
   */
  pass: (number | null)[];
  /** The mean of the first k. */
  average: (number | null)[];
  /**
   * The score of the most frequent (answer, score) among the first k with an answer: ties averaged, 0 without answers.
   */
  majority: (number | null)[];
  /** The mean of rollout i over tasks, at index i. Only tasks with a value count, so gaps close up. */
  runs: number[];
  /** The mean over tasks of the spread (n - 1) of the first k; not times 100. */
  sample_std_dev: (number | null)[];
}

/** What upstream's `compute_pass_majority_metrics` returns, everything except spreads in percent. */
export interface PassMetrics {
  /** Flat, in upstream's order; `per_sample_aggregate` has a list per score. */
  metrics: Record<string, number | Record<string, number[]>>;
  /** `pass@1[avg-of-k]/<score>/avg_sample_std_dev`, which upstream adds on request. */
  sample_std_dev: Record<string, number>;
}

export function createPassCounts(): PassCounts {
  const pass = createMeans();
  const average = createMeans();
  const majority = createMeans();
  const runs = createMeans();
  const spread = createMeans();
  return {
    add: (scores, answers) => {
      const present = scores.filter((score) => score !== null);
      passes(present).forEach((value, index) => {
        pass.add({ value, from: index, to: index });
      });
      scores.forEach((value, index) => {
        if (value !== null) runs.add({ value, from: index, to: index });
      });
      prefixes(scores).forEach(({ mean, std }, index) => {
        const to = index === scores.length - 1 ? null : index;
        if (mean !== null) average.add({ value: mean, from: index, to });
        if (std !== null) spread.add({ value: std, from: index, to });
      });
      if (answers === undefined) return;
      if (answers.length === 0) majority.add({ value: 0, from: 0, to: null });
      majorities(scores, answers).forEach((value, index) => {
        majority.add({ value, from: index, to: index === scores.length - 1 ? null : index });
      });
    },
    percentages: (max_k) => ({
      pass: pass.means(max_k).map(percent),
      average: average.means(max_k).map(percent),
      majority: majority.means(max_k).map(percent),
      runs: runs.means(max_k).flatMap((mean) => (mean === null ? [] : [100 * mean])),
      sample_std_dev: spread.means(max_k),
    }),
  };
}

const percent = (mean: number | null): number | null => (mean === null ? null : 100 * mean);

/** Means at index 0, 1, …: a value counts from one index to another, or (null) for all following ones. */
function createMeans() {
  const steps: { sum: number; count: number }[] = [];
  const own: { sum: number; count: number }[] = [];
  const into = (list: typeof own, { index, value }: { index: number; value: number }): void => {
    while (list.length <= index) list.push({ sum: 0, count: 0 });
    const entry = list[index];
    if (entry === undefined) return;
    entry.sum += value;
    entry.count += 1;
  };
  return {
    add: ({ value, from, to }: { value: number; from: number; to: number | null }): void => {
      into(to === null ? steps : own, { index: from, value });
    },
    means: (length: number): (number | null)[] => {
      let [sum, count] = [0, 0];
      return Array.from({ length }, (_, index) => {
        sum += steps[index]?.sum ?? 0;
        count += steps[index]?.count ?? 0;
        const all = count + (own[index]?.count ?? 0);
        return all === 0 ? null : (sum + (own[index]?.sum ?? 0)) / all;
      });
    },
  };
}

/** For each k up to the number of scores. */
function passes(scores: readonly number[]): number[] {
  if (!scores.every((score) => score === 0 || score === 1)) {
    let best = -Infinity;
    return scores.map((score) => (best = Math.max(best, score)));
  }
  const wrong = scores.filter((score) => score === 0).length;
  // C(wrong, k) / C(all, k), from that of k - 1: 0 as soon as k exceeds `wrong`.
  let allWrong = 1;
  return scores.map((_, k) => {
    allWrong *= (wrong - k) / (scores.length - k);
    return 1 - Math.max(0, allWrong);
  });
}

/** Mean and spread of the first k, for each k; null if too few have a value. */
function prefixes(scores: Scores): { mean: number | null; std: number | null }[] {
  // Welford's sums, which are exact enough even if scores hardly differ.
  let [count, mean, squares] = [0, 0, 0];
  return scores.map((score) => {
    if (score !== null) {
      count += 1;
      const off = score - mean;
      mean += off / count;
      squares += off * (score - mean);
    }
    return {
      mean: count === 0 ? null : mean,
      std: count < 2 ? null : Math.sqrt(Math.max(0, squares) / (count - 1)),
    };
  });
}

function majorities(scores: Scores, answers: readonly ExtractedAnswer[]): number[] {
  const votes = new Map<string, number>();
  let [most, sum, tied] = [0, 0, 0];
  return scores.map((score, index) => {
    const answer = answers[index] ?? null;
    if (answer !== null && score !== null) {
      const key = `${voteOf(answer)} ${score}`;
      const count = (votes.get(key) ?? 0) + 1;
      votes.set(key, count);
      if (count > most) [most, sum, tied] = [count, score, 1];
      else if (count === most) [sum, tied] = [sum + score, tied + 1];
    }
    return tied === 0 ? 0 : sum / tied;
  });
}

/** As Python compares them: `True` is 1, `"1"` is not. */
const voteOf = (answer: string | number | boolean): string =>
  typeof answer === 'string' ? JSON.stringify(answer) : String(Number(answer));

/** The metrics of scores, by name, whose tasks have been added. */
export function passMetrics(counts: ReadonlyMap<string, PassCounts>, max_k: number): PassMetrics {
  const scores = [...counts].map(([name, count]) => ({ name, ...count.percentages(max_k) }));
  const metrics: PassMetrics['metrics'] = {};
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
