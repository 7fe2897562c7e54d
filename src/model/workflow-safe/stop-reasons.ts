export const STOP_REASONS = [
  /** The environment ended it. */
  'terminated',
  /** A length limit ended it. */
  'truncated',
  /** `max_rollout_turns` ended it. */
  'max_turns',
  /** `rollout_timeout` passed. */
  'timeout',
  /** The `stop` signal ended it. */
  'stopped',
  'cancelled',
  'failed',
] as const;
export type StopReason = (typeof STOP_REASONS)[number];

/** Endings that give a row for the trainer. All others are rows of failures.jsonl. */
export const VALID_STOP_REASONS: ReadonlySet<string | null> = new Set<StopReason>([
  'terminated',
  'truncated',
  'max_turns',
]);
