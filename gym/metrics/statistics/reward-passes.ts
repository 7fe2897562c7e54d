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
export function rewardPasses(
  { table, answers, subsets }: PassInput,
  rows: Rows,
): { all: Entries; key: Entries } {
  const groups = [...groupsOf(table, rows)];
  const isAsked = answers !== null || subsets !== null;
  if (!isAsked && groups.every(({ length }) => length < 2)) return { all: [], key: [] };
  const parts = new Map<number, Rows[]>();
  for (const group of groups) {
    const label = subsets?.of(group[0] ?? 0) ?? null;
    if (label === null || subsets?.isTrue(label) !== true) continue;
    const own = parts.get(label) ?? [];
    if (own.push(group) === 1) parts.set(label, own);
  }
  const { metrics, sample_std_dev } = passesOf(groups, { table, answers });
  const all: Metrics = { ...metrics, ...sample_std_dev };
  const key = {
    ...highestK(all, 'pass@{k}'),
    ...highestK(all, 'pass@1[avg-of-{k}]'),
    ...highestK(all, 'majority@{k}'),
  };
  for (const [label, own] of parts) {
    const part = passesOf(own, { table, answers }).metrics;
    for (const [metric, value] of Object.entries(part)) {
      if (metric !== 'per_sample_aggregate')
        all[`${subsets?.nameOf(label) ?? ''}/${metric}`] = value;
    }
  }
  return { all: entriesOf(all), key: entriesOf(key) };
}

type Metrics = PassMetrics['metrics'];

/** Of tasks. */
function passesOf(
  groups: readonly Rows[],
  { table, answers }: Pick<PassInput, 'table' | 'answers'>,
): PassMetrics {
  const most = groups.reduce((max, { length }) => Math.max(max, length), 0);
  const max_k = Math.min(most, MAX_K);
  const column = table.names.indexOf('reward');
  // By name, as upstream sorts them.
  const counts = new Map<string, PassCounts>();
  const no_answer = createPassCounts(max_k);
  const reward = createPassCounts(max_k);
  if (answers !== null) counts.set('no_answer', no_answer);
  if (column !== -1) counts.set('reward', reward);
  for (const group of groups) {
    const rewards = Array.from(group, (row) => rewardOf(table, { row, column }));
    const own = answers === null ? undefined : Array.from(group, (row) => answers.of(row));
    reward.add(rewards, own);
    const none = own?.map((answer) => ({ value: answer === null ? 1 : 0, whole: true }));
    if (none !== undefined) no_answer.add(none, own);
  }
  return passMetrics(counts, max_k);
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
