/**
 * What the Web UI's list and `temporal workflow list --query` can filter by. The worker registers them where they are
 * missing: a workflow that upserts an unknown one is stuck.
 */
export const RolloutTask = { name: 'RolloutTask', type: 'KEYWORD' } as const;
/** The stop reason. */
export const RolloutOutcome = { name: 'RolloutOutcome', type: 'KEYWORD' } as const;
export const RolloutPolicyVersion = { name: 'RolloutPolicyVersion', type: 'KEYWORD' } as const;
export const RolloutReward = { name: 'RolloutReward', type: 'DOUBLE' } as const;
export const RolloutTurns = { name: 'RolloutTurns', type: 'INT' } as const;

/** Of rollouts that an agent plays: its name, and the row's `_ng_task_index`, `_ng_attempt_index`, and name `<task>-<rollout>`. */
export const RolloutAgent = { name: 'RolloutAgent', type: 'KEYWORD' } as const;
export const RolloutTaskIndex = { name: 'RolloutTaskIndex', type: 'INT' } as const;
export const RolloutAttempt = { name: 'RolloutAttempt', type: 'INT' } as const;
export const RolloutKey = { name: 'RolloutKey', type: 'KEYWORD' } as const;

/** Of a policy: the version that its service serves. A whole number; SQL servers have room for three integer attributes alone. */
export const PolicyVersion = { name: 'PolicyVersion', type: 'DOUBLE' } as const;

export const SEARCH_ATTRIBUTES = [
  RolloutTask,
  RolloutOutcome,
  RolloutPolicyVersion,
  RolloutReward,
  RolloutTurns,
  RolloutAgent,
  RolloutTaskIndex,
  RolloutAttempt,
  RolloutKey,
  PolicyVersion,
] as const;
