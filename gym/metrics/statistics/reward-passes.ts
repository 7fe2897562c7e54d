import type { Entries, Rows } from './describe.js';
import type { Labels } from '../table/labels.js';
import { createPassCounts, passMetrics, type PassCounts, type PassMetrics } from './pass-at-k.js';
import { groupsOf } from '../profile.js';
import { floatJson } from '../../../src/platform/python/numbers.js';
import { COUNTS, WHOLE, type RolloutTable } from '../table/rollout-table.js';
import type { PythonNumber } from './sums.js';

/** The largest reported k. */
const MAX_K = 1024;

export interface PassInput {
  table: RolloutTable;
  /** Extracted answers: with them there are `majority@k` and the score `no_answer`. */
  answers: Labels | null;
  /** The subset of a task, from its first rollout, unless it is false: with it there are `<subset>/pass@k/…`. */
  subsets: Labels | null;
}

/**
 * pass@k of `reward` and related metrics: if a task has more than one rollout, or if answers or subsets are requested.
 */
export function rewardPasses(input: PassInput, rows: Rows): { all: Entries; key: Entries } {
  const { table, answers, subsets } = input;
  const subsetOf = (group: Rows): number | null => {
    const label = subsets?.of(group[0] ?? 0) ?? null;
    return label !== null && subsets?.isTrue(label) === true ? label : null;
  };
  const most = { whole: 0, parts: new Map<number, number>() };
  for (const group of groupsOf(table, rows)) {
    most.whole = Math.max(most.whole, group.length);
    const subset = subsetOf(group);
    if (subset === null) continue;
    most.parts.set(subset, Math.max(most.parts.get(subset) ?? 0, group.length));
  }
  const isAsked = answers !== null || subsets !== null;
  if (most.whole < 2 && !isAsked) return { all: [], key: [] };
  const whole = createTaskTally(input, most.whole);
  const parts = new Map<number, TaskTally>();
  for (const [subset, own] of most.parts) parts.set(subset, createTaskTally(input, own));
  for (const group of groupsOf(table, rows)) {
    whole.add(group);
    parts.get(subsetOf(group) ?? -1)?.add(group);
  }
  const { metrics, sample_std_dev } = whole.result();
  const all: Metrics = { ...metrics, ...sample_std_dev };
  const key = {
    ...highestK(all, 'pass@{k}'),
    ...highestK(all, 'pass@1[avg-of-{k}]'),
    ...highestK(all, 'majority@{k}'),
  };
  for (const [subset, part] of parts) {
    const name = subsets?.nameOf(subset) ?? '';
    for (const [metric, value] of Object.entries(part.result().metrics)) {
      if (metric !== 'per_sample_aggregate') all[`${name}/${metric}`] = value;
    }
  }
  return { all: entriesOf(all), key: entriesOf(key) };
}

type Metrics = PassMetrics['metrics'];

interface TaskTally {
  /** One task. */
  add: (group: Rows) => void;
  result: () => PassMetrics;
}

/** `most`: the rollouts of the largest task. */
function createTaskTally({ table, answers }: PassInput, most: number): TaskTally {
  const max_k = Math.min(most, MAX_K);
  const column = table.names.indexOf('reward');
  // By name, as upstream sorts them.
  const counts = new Map<string, PassCounts>();
  const no_answer = createPassCounts(max_k);
  const reward = createPassCounts(max_k);
  if (answers !== null) counts.set('no_answer', no_answer);
  if (column !== -1) counts.set('reward', reward);
  return {
    add: (group) => {
      const rewards = Array.from(group, (row) => rewardOf(table, { row, column }));
      if (answers === null) {
        reward.add(rewards);
        return;
      }
      const own = Array.from(group, (row) => answers.of(row));
      reward.add(rewards, own);
      no_answer.add(
        own.map((answer) => ({ value: answer === null ? 1 : 0, whole: true })),
        own,
      );
    },
    result: () => passMetrics(counts, max_k),
  };
}

function rewardOf(
  table: RolloutTable,
  { row, column }: { row: number; column: number },
): PythonNumber | null {
  const end = table.firstCell(row + 1);
  for (let cell = table.firstCell(row); cell < end; cell++) {
    if (table.columnOf(cell) === column && (table.flagsOf(cell) & COUNTS) !== 0) {
      return { value: table.valueOf(cell), whole: (table.flagsOf(cell) & WHOLE) !== 0 };
    }
  }
  return null;
}

const entriesOf = (metrics: Metrics): Entries =>
  Object.entries(metrics).map(([name, value]) => [
    name,
    typeof value === 'number' ? floatJson(value) : runsText(value),
  ]);

const runsText = (lists: Record<string, number[]>): string => {
  const parts = Object.entries(lists).map(
    ([name, runs]) => `${JSON.stringify(name)}:[${runs.map(floatJson).join(',')}]`,
  );
  return `{${parts.join(',')}}`;
};

const SPREADS = ['std_dev_across_runs', 'std_err_across_runs', 'avg_sample_std_dev'];

/** The metrics named `<pattern>/<score>` with a number for `{k}`: those of the largest k, without spreads. */
export function highestK(metrics: Metrics, pattern: string): Metrics {
  const [before = '', after = ''] = pattern.split('{k}').map(escaped);
  const named = new RegExp(`^${before}(\\d+)${after}/(.+)$`);
  const found = Object.entries(metrics).flatMap(([name, value]) => {
    const [, k, score] = named.exec(name) ?? [];
    if (score === undefined || SPREADS.some((spread) => score.endsWith(spread))) return [];
    return [{ k: Number(k), name, value }];
  });
  const most = found.reduce((max, { k }) => Math.max(max, k), 0);
  return Object.fromEntries(
    found.filter(({ k }) => k === most).map(({ name, value }) => [name, value]),
  );
}

const escaped = (text: string): string => text.replace(/[.*+?^${}()|[\]\\]/g, '\\$&');
