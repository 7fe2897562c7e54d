import { objectText } from '../../src/platform/json/members.js';
import { AGENT_REF, ROLLOUT_INDEX, TASK_INDEX } from '../keys.js';
import { columnsOf, createDescriber, type Entries, type Rows } from './statistics/describe.js';
import { floatJson } from '../../src/platform/python/numbers.js';
import { SHOWN, USAGE, WHOLE, type RolloutTable } from './table/rollout-table.js';

export interface ProfileInput {
  /** The JSON text of a group's `sample`. */
  sampleOf: (task: number) => string;
  /** How many rollouts the task should have. */
  expectedOf: (task: number, found: number) => number;
}

export type Profiler = ReturnType<typeof createProfiler>;

/** Upstream's statistics of rows that are profiled together; sorted by key, without repeated keys. */
export function createProfiler(table: RolloutTable, rows: Rows) {
  const describe = createDescriber(table, columnsOf(table, rows));
  return {
    /** One object per task, in the order of task indexes, each computed on demand. */
    groups: function* (input: ProfileInput): Generator<Entries> {
      for (const group of groupsOf(table, rows)) {
        yield groupEntries(group, { ...input, table, described: describe(group) });
      }
    },
    /** Statistics over some of the rows, as the metrics of one agent. */
    agent: describe,
  };
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

const taskAt = (table: RolloutTable, row: number | undefined): number => table.taskOf(row ?? 0);

function groupEntries(
  group: Rows,
  {
    table,
    described,
    sampleOf,
    expectedOf,
  }: ProfileInput & { table: RolloutTable; described: Entries },
): Entries {
  const task = taskAt(table, group[0]);
  const found = group.length;
  const expected = expectedOf(task, found);
  const percent = expected === 0 ? 100 : (100 * found) / expected;
  const infos = Array.from(group, (row) => rolloutInfo(table, row));
  return [
    [TASK_INDEX, String(task)],
    ...described,
    ['sample', sampleOf(task)],
    ['num_rollouts', String(found)],
    ['expected_num_rollouts', String(expected)],
    ['missing_num_rollouts', String(expected - found)],
    ['reward_profile_completion_pct', floatJson(percent)],
    ['rollout_infos', `[${infos.join(',')}]`],
  ];
}

/** An entry of `rollout_infos`: the key, the original reward, the usage, then the result's other numbers. */
function rolloutInfo(table: RolloutTable, row: number): string {
  const { task, rollout } = table.keyOf(row);
  const reward: [string, string][] = [];
  const usage: [string, string][] = [];
  const others: [string, string][] = [];
  const end = table.firstCell(row + 1);
  for (let cell = table.firstCell(row); cell < end; cell++) {
    const flags = table.flagsOf(cell);
    if ((flags & SHOWN) === 0) continue;
    const name = table.names[table.columnOf(cell)] ?? '';
    const value = table.valueOf(cell);
    const text = table.textOf(cell) ?? ((flags & WHOLE) === 0 ? floatJson(value) : String(value));
    const isUsage = (flags & USAGE) !== 0;
    (isUsage ? usage : name === 'reward' ? reward : others).push([name, text]);
  }
  return objectText([
    ['rollout_id', `"${task}:${rollout}"`],
    [TASK_INDEX, String(task)],
    [ROLLOUT_INDEX, String(rollout)],
    ...reward,
    ...usage,
    ...others,
  ]);
}
