import { durationMs, durationProblem } from './durations.js';
import { fieldsProblem, integerProblem } from './fields.js';

export interface Limits {
  max_rollout_turns: number;
  max_new_tokens: number;
  max_seq_len: number;
  /** Limit of the whole rollout, from its first run's start. */
  rollout_timeout: string;
}

/** What an update changes; omitted fields stay. */
export type LimitsChange = Partial<Limits>;

/** Limits of turns; a turn's activity writes them to the journal. */
export type TurnLimits = Omit<LimitsChange, 'rollout_timeout'>;

export const rolloutTimeoutMs = ({ rollout_timeout }: LimitsChange): number | null =>
  durationMs(rollout_timeout);

/** null if no limit of turns was changed. */
export function turnLimitsOf(change: LimitsChange): TurnLimits | null {
  const limits = { ...change };
  delete limits.rollout_timeout;
  return Object.keys(limits).length === 0 ? null : limits;
}

/** The problem of the input of update `set_limits`, by field, or null. */
export function limitsProblem(input: unknown): string | null {
  return fieldsProblem(input, {
    max_rollout_turns: (value) => integerProblem(value, 0),
    max_new_tokens: (value) => integerProblem(value, 1),
    max_seq_len: (value) => integerProblem(value, 1),
    rollout_timeout: durationProblem,
  });
}

export function maxInFlightProblem(input: unknown): string | null {
  return fieldsProblem(input, { max_in_flight: (value) => integerProblem(value, 1) });
}
