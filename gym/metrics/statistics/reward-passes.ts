import type { Rows } from './describe.js';
import { highestK } from './highest-k.js';
import type { Labels } from '../table/labels.js';
import { createPassCounts, type PassCounts } from './pass-at-k.js';
import { passResult } from './pass-metrics.js';
import { groupsOf, type Entries } from '../profile.js';
import { floatJson } from '../../../src/platform/python/numbers.js';
import { COUNTS, type RolloutTable } from '../table/rollout-table.js';

/** Of more rollouts per task than this, only the first k are told. */
const MAX_K = 1024;

export interface PassInput {
  table: RolloutTable;
  /** Extracted answers: with them there are `majority@k` and the score `no_answer`. */
  answers: Labels | null;
  /** What a task belongs to, as its first rollout says: with it there are `<subset>/pass@k/…`. */
  subsets: Labels | null;
}

/** pass@k of `reward` and its relatives: where a task has more than one rollout, or where answers or subsets are asked for. */
export function rewardPasses(input: PassInput, rows: Rows): { all: Entries; key: Entries } {
  const { table, answers, subsets } = input;
  const whole = createTally(input);
  const parts = new Map<number, Tally>();
  for (const group of groupsOf(table, rows)) {
    whole.add(group);
    const subset = subsets?.of(group[0] ?? 0) ?? null;
    if (subset === null) continue;
    const part = parts.get(subset) ?? createTally(input);
    parts.set(subset, part);
    part.add(group);
  }
  const isAsked = answers !== null || subsets !== null;
  if (whole.most() < 2 && !isAsked) return { all: [], key: [] };
  const { metrics, sample_std_dev } = whole.result();
  const all: Metrics = { ...metrics, ...sample_std_dev };
  const key = {
    ...highestK(all, { pattern: 'pass@{k}' }),
    ...highestK(all, { pattern: 'pass@1[avg-of-{k}]' }),
    ...highestK(all, { pattern: 'majority@{k}' }),
  };
  for (const [subset, part] of parts) {
    const name = subsets?.nameOf(subset) ?? '';
    for (const [metric, value] of Object.entries(part.result().metrics)) {
      if (metric !== 'per_sample_aggregate') all[`${name}/${metric}`] = value;
    }
  }
  return { all: entriesOf(all), key: entriesOf(key) };
}

type Metrics = Record<string, number | Record<string, number[]>>;

interface Tally {
  /** One task. */
  add: (group: Rows) => void;
  /** The rollouts of the largest task. */
  most: () => number;
  result: () => ReturnType<typeof passResult>;
}

function createTally({ table, answers }: PassInput): Tally {
  const column = table.names.indexOf('reward');
  // By name, as upstream sorts them.
  const counts = new Map<string, PassCounts>();
  const no_answer = createPassCounts();
  const reward = createPassCounts();
  if (answers !== null) counts.set('no_answer', no_answer);
  if (column !== -1) counts.set('reward', reward);
  let most = 0;
  return {
    add: (group) => {
      most = Math.max(most, group.length);
      const rewards = Array.from(group, (row) => rewardOf(table, { row, column }));
      if (answers === null) {
        reward.add(rewards);
        return;
      }
      const own = Array.from(group, (row) => answers.of(row));
      reward.add(rewards, own);
      no_answer.add(
        own.map((answer) => (answer === null ? 1 : 0)),
        own,
      );
    },
    most: () => most,
    result: () => passResult(counts, Math.min(most, MAX_K)),
  };
}

function rewardOf(
  table: RolloutTable,
  { row, column }: { row: number; column: number },
): number | null {
  const end = table.firstCell(row + 1);
  for (let cell = table.firstCell(row); cell < end; cell++) {
    if (table.columnOf(cell) === column && (table.flagsOf(cell) & COUNTS) !== 0) {
      return table.valueOf(cell);
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
