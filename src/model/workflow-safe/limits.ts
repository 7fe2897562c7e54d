import { durationMs, durationProblem } from './durations.js';

/** The limits of a rollout that may be changed while it runs. */

/** Those that turns are played by; a turn's activity brings them to the journal. */
export interface TurnLimits {
  max_rollout_turns?: number;
  max_new_tokens?: number;
  max_seq_len?: number;
}

/** What an update changes; what it does not name stays. */
export interface LimitsChange extends TurnLimits {
  /** Of the whole rollout, from its first run's start. */
  rollout_timeout?: string;
}

/** What is in force. */
export type Limits = Required<LimitsChange>;

export const rolloutTimeoutMs = ({ rollout_timeout }: LimitsChange): number | null =>
  durationMs(rollout_timeout);

/** null where no limit of turns was changed. */
export function turnLimitsOf(change: LimitsChange): TurnLimits | null {
  const limits = { ...change };
  delete limits.rollout_timeout;
  return Object.keys(limits).length === 0 ? null : limits;
}

/** What is wrong with the input of update `set_limits`, by field; null: nothing. */
export function limitsProblem(input: unknown): string | null {
  return problemOf(input, {
    max_rollout_turns: (value) => integerProblem(value, 0),
    max_new_tokens: (value) => integerProblem(value, 1),
    max_seq_len: (value) => integerProblem(value, 1),
    rollout_timeout: durationProblem,
  });
}

/** What is wrong with the input of update `set_max_in_flight`; null: nothing. */
export function maxInFlightProblem(input: unknown): string | null {
  return problemOf(input, { max_in_flight: (value) => integerProblem(value, 1) });
}

/** An object with some of these fields, at least one, and no other. */
function problemOf(
  input: unknown,
  fields: Record<string, (value: unknown) => string | null>,
): string | null {
  const expected = `expected an object with ${Object.keys(fields).join(', ')}`;
  if (typeof input !== 'object' || input === null || Array.isArray(input))
    return `${expected}, got ${quote(input)}`;
  const given = Object.entries(input);
  if (given.length === 0) return `${expected} (at least one), got {}`;
  for (const [name, value] of given) {
    const check = Object.hasOwn(fields, name) ? fields[name] : undefined;
    if (check === undefined) return `${name}: unknown field; ${expected}`;
    const problem = check(value);
    if (problem !== null) return `${name}: ${problem}`;
  }
  return null;
}

function integerProblem(value: unknown, least: number): string | null {
  return Number.isSafeInteger(value) && (value as number) >= least
    ? null
    : `expected an integer of at least ${least}, got ${quote(value)}`;
}

const QUOTED = 80;

function quote(value: unknown): string {
  if (value === undefined) return 'nothing';
  const text = JSON.stringify(value);
  return text.length > QUOTED ? `${text.slice(0, QUOTED)}…` : text;
}
