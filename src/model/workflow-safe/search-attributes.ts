/**
 * Filters for the Web UI's list and `temporal workflow list --query`. Few, because a SQL server has room for ten keywords
 * and three numbers of a kind in each namespace, for all that use it.
 */
export const RolloutTask = { name: 'RolloutTask', type: 'KEYWORD' } as const;
/** The stop reason. */
export const RolloutOutcome = { name: 'RolloutOutcome', type: 'KEYWORD' } as const;
export const RolloutPolicyVersion = { name: 'RolloutPolicyVersion', type: 'KEYWORD' } as const;
export const RolloutReward = { name: 'RolloutReward', type: 'DOUBLE' } as const;
export const RolloutTurns = { name: 'RolloutTurns', type: 'INT' } as const;

/** For rollouts that an agent plays: its name, and the name `<task>-<rollout>` that NeMo Gym gives the row. */
export const RolloutAgent = { name: 'RolloutAgent', type: 'KEYWORD' } as const;
export const RolloutKey = { name: 'RolloutKey', type: 'KEYWORD' } as const;

export const SEARCH_ATTRIBUTES = [
  RolloutTask,
  RolloutOutcome,
  RolloutPolicyVersion,
  RolloutReward,
  RolloutTurns,
  RolloutAgent,
  RolloutKey,
] as const;

export type SearchAttribute = (typeof SEARCH_ATTRIBUTES)[number];
