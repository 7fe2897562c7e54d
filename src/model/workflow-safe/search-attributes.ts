/**
 * Filters for the Web UI's list and `temporal workflow list --query`. The worker registers missing ones at its start,
 * because a workflow that upserts an unknown one hangs.
 */
export const RolloutTask = { name: 'RolloutTask', type: 'KEYWORD' } as const;
/** The stop reason. */
export const RolloutOutcome = { name: 'RolloutOutcome', type: 'KEYWORD' } as const;
export const RolloutPolicyVersion = { name: 'RolloutPolicyVersion', type: 'KEYWORD' } as const;
export const RolloutReward = { name: 'RolloutReward', type: 'DOUBLE' } as const;
export const RolloutTurns = { name: 'RolloutTurns', type: 'INT' } as const;

/**
 * For rollouts that an agent plays: its name, the row's `_ng_task_index` and `_ng_attempt_index`, and the name
 * `<task>-<rollout>`.
 */
export const RolloutAgent = { name: 'RolloutAgent', type: 'KEYWORD' } as const;
export const RolloutTaskIndex = { name: 'RolloutTaskIndex', type: 'INT' } as const;
export const RolloutAttempt = { name: 'RolloutAttempt', type: 'INT' } as const;
export const RolloutKey = { name: 'RolloutKey', type: 'KEYWORD' } as const;

/**
 * The version that a policy's service serves. A whole number stored as a double, since SQL servers have room for only
 * three integer attributes.
 */
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
