import { z } from 'zod';
import { AgentSummary, agentSummaryOf } from '../agent/summary.js';
import { saidIds } from '../journal/calls.js';
import { overlongOf } from '../journal/outcome.js';
import { TreeSummary, treeSummaryOf } from './tree-summary.js';
import type { Row } from './row.js';
import type { Trajectory } from '../journal/trajectory.js';
import { hash32 } from '../workflow-safe/hash32.js';

/** What the closing pass keeps of a rollout: about 300 bytes, enough for every metric. */
export const Summary = z.object({
  row: z.number(),
  repeat: z.number(),
  replaces: z.number().nullable().default(null),
  task_name: z.string(),
  stop_reason: z.string(),
  failure: z.string().nullable().default(null),
  reward: z.number(),
  rewards: z.record(z.string(), z.number()),
  terminated: z.boolean(),
  truncated: z.boolean(),
  max_turns_reached: z.boolean(),
  turns: z.number(),
  gen_tokens: z.number(),
  env_tokens: z.number(),
  max_gen_tokens: z.number(),
  queue_s: z.number(),
  generate_s: z.number(),
  step_s: z.number(),
  wall_s: z.number(),
  started_at: z.number(),
  ended_at: z.number(),
  attempts: z.number(),
  /** Seconds in which its tasks were lost. */
  lost_s: z.number().default(0),
  inherited_tokens: z.number(),
  wasted_tokens: z.number(),
  faults: z.record(z.string(), z.number()),
  /** Truncated, and therefore masked or dropped. */
  overlong: z.boolean().default(false),
  /** How many tokens each version sampled, by label; in a step, those of unknown versions by the group's birth. */
  versions: z.record(z.string(), z.number()).optional(),
  /** A hash of all tokens that were sampled; absent: none were, or nobody knows them. */
  sampled: z.number().exactOptional(),
  agent: AgentSummary.exactOptional(),
  tree: TreeSummary.exactOptional(),
});
export type Summary = z.infer<typeof Summary>;

/** The group of a rollout: those of one sample, or of one task of an agent, share a baseline. */
const groupOf = ({ row, task_name, agent }: Summary): string | number =>
  agent === undefined ? row : JSON.stringify([task_name, agent.name, agent.task_index]);

/** The rollouts of each group, in the order of their first ones. */
export function groupsOf(summaries: readonly Summary[]): [Summary, ...Summary[]][] {
  const groups = new Map<string | number, [Summary, ...Summary[]]>();
  for (const summary of summaries) {
    const group = groups.get(groupOf(summary));
    if (group === undefined) groups.set(groupOf(summary), [summary]);
    else group.push(summary);
  }
  return [...groups.values()];
}

/** The version of tokens of which nobody can know it. */
export const UNKNOWN = 'unknown';

/** How many of a row's own tokens, and of those that train in its other sequences, each version sampled. */
export function tokensByVersion(
  { policy_versions, sequences = [] }: Pick<Row, 'policy_versions' | 'sequences'>,
  labelOf = (version: string | null): string => version ?? UNKNOWN,
): Record<string, number> {
  const tokens = new Map<string, number>();
  const others = sequences.flatMap((one) => (one.train ? one.policy_versions : []));
  for (const { start, end, version } of [...policy_versions, ...others]) {
    const label = labelOf(version);
    tokens.set(label, (tokens.get(label) ?? 0) + end - start);
  }
  return Object.fromEntries(tokens);
}

export function toSummary(row: Row, trajectory: Trajectory): Summary {
  const { start, faults, inherited_tokens, wasted_tokens } = trajectory;
  const agent = agentSummaryOf(trajectory, row);
  const tree = treeSummaryOf(trajectory, row);
  return {
    row: row.row,
    repeat: row.repeat,
    replaces: row.replaces ?? null,
    task_name: row.task_name,
    stop_reason: row.stop_reason,
    failure: row.failure?.type ?? null,
    reward: row.total_reward,
    rewards: row.rewards,
    terminated: row.terminated,
    truncated: row.truncated,
    max_turns_reached: row.max_turns_reached,
    turns: row.calls ?? row.turn_count,
    // An agent that has asked for no answer may have told what its own model said.
    gen_tokens:
      row.calls === 0 ? row.assistant_tokens : (row.all_tokens?.sampled ?? row.assistant_tokens),
    env_tokens: row.env_tokens,
    max_gen_tokens: longestCall(trajectory),
    ...row.timing,
    started_at: start?.at ?? 0,
    ended_at: (start?.at ?? 0) + row.timing.wall_s,
    attempts: row.attempts,
    lost_s: trajectory.lost_s,
    inherited_tokens,
    wasted_tokens,
    faults,
    overlong:
      (row.failure === undefined && overlongOf(trajectory) === 'mask') ||
      row.failure?.type === 'Overlong',
    versions: tokensByVersion(row),
    ...sampledHash(trajectory),
    ...(agent !== undefined && { agent }),
    ...(tree !== undefined && { tree }),
  };
}

function sampledHash(trajectory: Trajectory): Pick<Summary, 'sampled'> {
  const ids = trajectory.calls.flatMap(saidIds);
  return ids.length === 0 ? {} : { sampled: hash32(ids) };
}

const longestCall = (trajectory: Trajectory): number =>
  trajectory.calls.reduce((most, call) => Math.max(most, saidIds(call).length), 0);
