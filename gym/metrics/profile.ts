import { AGENT_REF, TASK_INDEX } from '../keys.js';
import { columnsOf, createDescriber, type Described, type Rows } from './statistics/describe.js';
import { floatJson } from '../../src/platform/python/numbers.js';
import { rolloutInfo } from './table/rollout-info.js';
import type { RolloutTable } from './table/rollout-table.js';

/** Of an object: a name and the JSON text of its value. */
export type Entries = Described;

export interface ProfileInput {
  /** The JSON text of a group's `sample`. */
  sampleOf: (task: number) => string;
  /** How many rollouts the task should have. */
  expectedOf: (task: number, found: number) => number;
}

export interface Profiler {
  /** One object per task, in the order of task indexes; each is made when it is asked for. */
  groups(input: ProfileInput): Generator<Entries>;
  /** Statistics over some of the rows, as the metrics of one agent. */
  agent(own: Rows): Entries;
}

/** Upstream's statistics of rows that are profiled together; sorted by key, no key twice. */
export function createProfiler(table: RolloutTable, rows: Rows): Profiler {
  const describe = createDescriber(table, columnsOf(table, rows));
  return {
    groups: function* (input) {
      for (const group of groupsOf(table, rows)) {
        yield groupEntries(group, { ...input, table, described: describe(group) });
      }
    },
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
  }: ProfileInput & { table: RolloutTable; described: Described },
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
