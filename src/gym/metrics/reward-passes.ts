import type { Rows } from './describe.js';
import { highestK } from './highest-k.js';
import { createPassCounts } from './pass-at-k.js';
import { passResult } from './pass-metrics.js';
import { groupsOf, type Entries } from './profile.js';
import { floatText } from './python-number.js';
import type { RolloutTable } from './rollout-table.js';

/** Of more rollouts per task than this, only the first k are told. */
const MAX_K = 1024;

/** pass@k of `reward` and its relatives, where a task has more than one rollout; else nothing. */
export function rewardPasses(table: RolloutTable, rows: Rows): { all: Entries; key: Entries } {
  const column = table.names.indexOf('reward');
  const counts = createPassCounts();
  let most = 0;
  for (const group of groupsOf(table, rows)) {
    most = Math.max(most, group.length);
    counts.add(Array.from(group, (row) => rewardOf(table, { row, column })));
  }
  if (most < 2 || column === -1) return { all: [], key: [] };
  const { metrics, sample_std_dev } = passResult(
    new Map([['reward', counts]]),
    Math.min(most, MAX_K),
  );
  const all = { ...metrics, ...sample_std_dev };
  const key = {
    ...highestK(all, { pattern: 'pass@{k}' }),
    ...highestK(all, { pattern: 'pass@1[avg-of-{k}]' }),
  };
  return { all: entriesOf(all), key: entriesOf(key) };
}

function rewardOf(
  table: RolloutTable,
  { row, column }: { row: number; column: number },
): number | null {
  const cell = table.cellsOf(row).find((found) => found.column === column && !found.usage);
  return cell?.value ?? null;
}

const entriesOf = (metrics: Record<string, number | Record<string, number[]>>): Entries =>
  Object.entries(metrics).map(([name, value]) => [
    name,
    typeof value === 'number' ? floatText(value) : runsText(value),
  ]);

const runsText = (lists: Record<string, number[]>): string => {
  const parts = Object.entries(lists).map(
    ([name, runs]) => `${JSON.stringify(name)}:[${runs.map(floatText).join(',')}]`,
  );
  return `{${parts.join(',')}}`;
};
