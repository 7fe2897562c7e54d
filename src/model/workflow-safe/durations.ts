import ms from 'ms';
import { quote } from './fields.js';

/** Timers refuse more than they can count, some only when they are set. */
const LONGEST_MS = ms('10y');

/** Milliseconds of a duration as people write it: `500ms`, `2s`, `5m`, `1h`; null for anything else. */
export function durationMs(value: unknown): number | null {
  // A number needs its unit: `ms('90')` would be 90 milliseconds, which is not what someone who forgets the unit means.
  if (typeof value !== 'string' || !/^\d+(\.\d+)?\s*[a-z]+$/i.test(value)) return null;
  // Its types accept only literals; at run time it returns undefined for anything that it cannot read.
  const milliseconds = ms(value as ms.StringValue);
  return Number.isFinite(milliseconds) ? milliseconds : null;
}

const MOST_QUOTED = 400;

/** What keeps a value from being a positive duration; null: nothing. */
export function durationProblem(value: unknown): string | null {
  const milliseconds = durationMs(value) ?? 0;
  const got = `got ${quote(value, MOST_QUOTED)}`;
  if (milliseconds <= 0) return `expected a duration such as "30s" or "1h", ${got}`;
  return milliseconds > LONGEST_MS ? `expected a duration of at most 10 years, ${got}` : null;
}

/** Milliseconds of a valid duration. */
export function toMs(duration: string): number {
  const value = durationMs(duration);
  if (value === null) throw new RangeError(`not a duration: ${duration}`);
  return value;
}

const USUAL_WAIT = '60s';
const LONGEST_WAIT = '10m';

export const waitMs = ({ wait = USUAL_WAIT }: { wait?: string }): number => toMs(wait);

/** Why a value cannot be the time limit of an answer; null: it can. */
export function waitProblem(value: unknown): string | null {
  const problem = durationProblem(value);
  if (problem !== null || toMs(value as string) <= toMs(LONGEST_WAIT)) return problem;
  return `expected at most ${LONGEST_WAIT}, got ${quote(value, MOST_QUOTED)}; ask again instead`;
}
