import { isValid, metricsOfSome } from './metrics.js';
import type { Summary } from './summary.js';
import { greatest, least } from './statistics.js';

/** A line of groups.jsonl: the rollouts of one sample, and the metrics of its valid ones, where it has any. */
export interface GroupLine {
  row: number;
  task_name: string;
  /** Replacements included. */
  rollouts: number;
  valid: number;
  /** How many of the others failed with each type. */
  failures: Record<string, number>;
  [metric: string]: unknown;
}

/** In the order in which the groups come. */
export function groupTable(all: readonly Summary[]): GroupLine[] {
  const groups = new Map<number, [Summary, ...Summary[]]>();
  for (const summary of all) {
    const group = groups.get(summary.row);
    if (group === undefined) groups.set(summary.row, [summary]);
    else group.push(summary);
  }
  return [...groups.values()].map(lineOf);
}

function lineOf(group: readonly [Summary, ...Summary[]]): GroupLine {
  const { row, task_name } = group[0];
  const valid = group.filter(isValid);
  return {
    row,
    task_name,
    rollouts: group.length,
    valid: valid.length,
    failures: failuresOf(group),
    ...(valid.length > 0 && { ...metricsOfSome(valid), ...boundsOf(valid) }),
  };
}

function failuresOf(group: readonly Summary[]): Record<string, number> {
  const failures: Record<string, number> = {};
  for (const { failure } of group)
    if (failure !== null) failures[failure] = (failures[failure] ?? 0) + 1;
  return failures;
}

function boundsOf(valid: readonly Summary[]): Record<string, number> {
  const rewards = valid.map(({ reward }) => reward);
  return { 'total_reward/min': least(rewards), 'total_reward/max': greatest(rewards) };
}
