import { AGENT_REF, TASK_INDEX } from '../keys.js';
import { columnsOf, describe, type Columns, type Rows } from './describe.js';
import { floatText } from './python-number.js';
import { rolloutInfo } from './rollout-info.js';
import type { RolloutTable } from './rollout-table.js';

/** Of an object: a name and the JSON text of its value. */
export type Entries = [name: string, text: string][];

export interface ProfileInput {
  table: RolloutTable;
  /** Sorted by key, no key twice. */
  rows: Rows;
  /** The JSON text of a group's `sample`. */
  sampleOf: (task: number) => string;
  /** How many rollouts the task should have. */
  expectedOf: (task: number, found: number) => number;
}

/** One object per task, in the order of task indexes; each is made when it is asked for. */
export function* groupMetrics(input: ProfileInput): Generator<Entries> {
  const { table, rows } = input;
  const columns = columnsOf(table, rows);
  for (const group of groupsOf(table, rows)) yield groupEntries({ ...input, columns }, group);
}

/** Upstream's statistics over some rows of `all`, as the metrics of one agent. */
export function agentMetrics(table: RolloutTable, { all, own }: { all: Rows; own: Rows }): Entries {
  return describe({ table, columns: columnsOf(table, all) }, own);
}

export const agentRef = (name: string): [name: string, text: string] => [
  AGENT_REF,
  JSON.stringify({ name }),
];

/** By default the means. */
export const keyMetrics = (metrics: Entries): Entries =>
  metrics.filter(([name]) => name.startsWith('mean/'));

/** Runs of rows of one task. */
export function* groupsOf(table: RolloutTable, rows: Rows): Generator<Rows> {
  let start = 0;
  for (let end = 1; end <= rows.length; end++) {
    if (end < rows.length && taskAt(table, rows[end]) === taskAt(table, rows[start])) continue;
    yield rows.subarray(start, end);
    start = end;
  }
}

const taskAt = (table: RolloutTable, row: number | undefined): number => table.keyOf(row ?? 0).task;

function groupEntries(
  { table, columns, sampleOf, expectedOf }: ProfileInput & { columns: Columns },
  group: Rows,
): Entries {
  const task = taskAt(table, group[0]);
  const found = group.length;
  const expected = expectedOf(task, found);
  const percent = expected === 0 ? 100 : (100 * found) / expected;
  const infos = Array.from(group, (row) => rolloutInfo(table, row));
  return [
    [TASK_INDEX, String(task)],
    ...describe({ table, columns }, group),
    ['sample', sampleOf(task)],
    ['num_rollouts', String(found)],
    ['expected_num_rollouts', String(expected)],
    ['missing_num_rollouts', String(expected - found)],
    ['reward_profile_completion_pct', floatText(percent)],
    ['rollout_infos', `[${infos.join(',')}]`],
  ];
}
