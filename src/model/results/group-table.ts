import { isValid, metricsOfSome } from './metrics.js';
import { agentGroupMetrics } from './agent-metrics.js';
import { groupsOf, type Summary } from './summary.js';
import { greatest, least } from './statistics.js';
import { treeMetrics } from './tree-summary.js';

/** A line of groups.jsonl: the rollouts of one group, and the metrics of its valid ones, if there are any. */
export interface GroupLine {
  /** The row of its first rollout. */
  row: number;
  task_name: string;
  /** The agent of the group, and its task; absent: no agent played it. */
  agent?: string;
  task_index?: number;
  /** Including replacements. */
  rollouts: number;
  valid: number;
  /** How many of the others failed with each type. */
  failures: Record<string, number>;
  [metric: string]: unknown;
}

/** In the order of the groups. */
export const groupTable = (all: readonly Summary[]): GroupLine[] => groupsOf(all).map(lineOf);

function lineOf(group: readonly [Summary, ...Summary[]]): GroupLine {
  const { row, task_name, agent } = group[0];
  const valid = group.filter(isValid);
  return {
    row,
    task_name,
    ...(agent !== undefined && { agent: agent.name, task_index: agent.task_index }),
    rollouts: group.length,
    valid: valid.length,
    failures: failuresOf(group),
    ...(valid.length > 0 && {
      ...metricsOfSome(valid),
      ...boundsOf(valid),
      ...agentGroupMetrics(valid),
      ...treeMetrics(valid),
    }),
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
