import { addTo, emptySum, floatSum, ratioOf, sumOf, type PythonNumber } from './sums.js';

/** One score in one task: a value per rollout, in order; null if the rollout has no such score. */
export type Scores = readonly (PythonNumber | null)[];

/** An extracted answer; null: none. */
export type ExtractedAnswer = string | number | boolean | null;

/** What upstream's `compute_pass_majority_metrics` returns, everything except spreads in percent. */
export interface PassMetrics {
  /** Flat, in upstream's order; `per_sample_aggregate` has a list per score. */
  metrics: Record<string, number | Record<string, number[]>>;
  /** `pass@1[avg-of-k]/<score>/avg_sample_std_dev`, which upstream adds on request. */
  sample_std_dev: Record<string, number>;
}

export type PassCounts = ReturnType<typeof createPassCounts>;

/**
 * Running sums of one score over tasks, in their order; k counts from 1, up to `max_k`, which is at least the number of
 * rollouts of each task, or what is asked for.
 */
export function createPassCounts(max_k: number) {
  const [pass, average, majority] = [createMeans(max_k), createMeans(max_k), createMeans(max_k)];
  const [runs, spread] = [createMeans(max_k), createMeans(max_k)];
  const passes = createPasses(max_k);
  return {
    /** Adds one task; with its answers there is also a majority. */
    add: (scores: Scores, answers?: readonly ExtractedAnswer[]): void => {
      const first = scores.slice(0, max_k);
      pass.add(passes(scores));
      runs.add(first);
      const own = prefixes(first);
      average.add(filled(own.means, max_k));
      spread.add(filled(own.spreads, max_k));
      if (answers !== undefined) majority.add(filled(majorities(first, answers), max_k));
    },
    /** Means over tasks, times 100, at index k - 1; null: no task has a value there. */
    percentages: () => ({
      /**
       * Binary scores: 1 - C(wrong, k) / C(all, k); others: the best of the first k. Tasks with fewer rollouts do not
       * count.
       */
      pass: pass.means(100),
      /** The mean of the first k. */
      average: average.means(100),
      /** The score of the most frequent (answer, score) among the first k with an answer: ties averaged, 0 without answers. */
      majority: majority.means(100),
      /** The mean of rollout i over tasks, at index i. Only tasks with a value count, so gaps close up. */
      runs: runs.means(100).filter((mean) => mean !== null),
      /** The mean over tasks of the spread (n - 1) of the first k; not times 100. */
      sample_std_dev: spread.means(1),
    }),
  };
}

/** All of a task's rollouts count for each k beyond their number. */
function filled(values: Scores, max_k: number): Scores {
  const last = values.at(-1) ?? null;
  return Array.from({ length: max_k }, (_, index) => values[index] ?? last);
}

function createMeans(length: number) {
  const sums = Array.from({ length }, () => ({ ...emptySum(), count: 0 }));
  return {
    /** One task's values, at index k - 1; null does not count. */
    add: (values: Scores): void => {
      for (const [index, value] of values.entries()) {
        const sum = sums[index];
        if (value === null || sum === undefined) continue;
        addTo(sum, value);
        sum.count += 1;
      }
    },
    /** `factor * sum / count`, as upstream computes it. */
    means: (factor: number): (number | null)[] =>
      sums.map((sum) => (sum.count === 0 ? null : (factor * sumOf(sum)) / sum.count)),
  };
}

const float = (value: number): PythonNumber => ({ value, whole: false });

/** For each k up to the number of scores. */
function createPasses(max_k: number): (all: Scores) => Scores {
  const known = new Map<string, Scores>();
  const ofBinary = (counts: { wrong: number; all: number }): Scores => {
    const name = `${counts.wrong}/${counts.all}`;
    const found = known.get(name) ?? allWrong({ ...counts, max_k }).map((p) => float(1 - p));
    known.set(name, found);
    return found;
  };
  return (given) => {
    const scores = given.filter((score) => score !== null);
    const [first] = scores;
    if (first === undefined) return [];
    if (scores.every(({ value }) => value === 0 || value === 1)) {
      const wrong = scores.filter(({ value }) => value === 0).length;
      return ofBinary({ wrong, all: scores.length });
    }
    let best = first;
    return scores.slice(0, max_k).map((score) => (best = score.value > best.value ? score : best));
  };
}

/** C(wrong, k) / C(all, k) for each k: 0 as soon as k exceeds `wrong`. */
function allWrong({ wrong, all, max_k }: { wrong: number; all: number; max_k: number }): number[] {
  let [bad, any] = [1n, 1n];
  return Array.from({ length: Math.min(all, max_k) }, (_, k) => {
    bad = (bad * BigInt(Math.max(0, wrong - k))) / BigInt(k + 1);
    any = (any * BigInt(all - k)) / BigInt(k + 1);
    return ratioOf(bad, any);
  });
}

/** Mean and spread of the first k, for each k; null if too few have a value. */
function prefixes(scores: Scores): { means: Scores; spreads: Scores } {
  const sum = emptySum();
  const seen: number[] = [];
  const spreads: (PythonNumber | null)[] = [];
  const means = scores.map((score) => {
    if (score !== null) {
      addTo(sum, score);
      seen.push(score.value);
    }
    const mean = sumOf(sum) / seen.length;
    spreads.push(seen.length < 2 ? null : float(spreadOf(seen, mean)));
    return seen.length === 0 ? null : float(mean);
  });
  return { means, spreads };
}

const spreadOf = (values: readonly number[], mean: number): number =>
  Math.sqrt(floatSum(values.map((value) => (value - mean) * (value - mean))) / (values.length - 1));

function majorities(scores: Scores, answers: readonly ExtractedAnswer[]): Scores {
  const votes = new Map<string, { count: number; score: PythonNumber }>();
  let [most, best] = [0, 0];
  const found = scores.map((score, index) => {
    const answer = answers[index] ?? null;
    if (answer !== null && score !== null) {
      const key = `${voteOf(answer)} ${score.value}`;
      const vote = votes.get(key) ?? { count: 0, score };
      vote.count += 1;
      votes.set(key, vote);
      if (vote.count >= most) {
        most = vote.count;
        best = tied(votes, most);
      }
    }
    return votes.size === 0 ? NOBODY : float(best);
  });
  return found.length === 0 ? [NOBODY] : found;
}

const NOBODY: PythonNumber = { value: 0, whole: true };

/** The mean of those with the most votes, in the order in which they got their first one. */
function tied(votes: ReadonlyMap<string, { count: number; score: PythonNumber }>, most: number) {
  const sum = emptySum();
  let count = 0;
  for (const vote of votes.values()) {
    if (vote.count !== most) continue;
    addTo(sum, vote.score);
    count += 1;
  }
  return sumOf(sum) / count;
}

/** As Python compares them: `True` is 1, `"1"` is not. */
const voteOf = (answer: string | number | boolean): string =>
  typeof answer === 'string' ? JSON.stringify(answer) : String(Number(answer));

/** The metrics of scores, by name, whose tasks have been added. */
export function passMetrics(counts: ReadonlyMap<string, PassCounts>, max_k: number): PassMetrics {
  const scores = [...counts].map(([name, count]) => ({ name, ...count.percentages() }));
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
  const std_dev = spreadOf(runs, floatSum(runs) / runs.length);
  return { std_dev, std_err: std_dev / Math.sqrt(runs.length) };
}
