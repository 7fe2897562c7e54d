import ms from 'ms';

/** Durations as people write them. Without zod: workflow code reads them too. */

/** Timers refuse more than they can count, some of them only when they are set. */
const LONGEST_MS = ms('10y');

/** What keeps a value from being a positive duration such as `500ms`, `2s`, `5m` or `1h`; null: nothing. */
export function durationProblem(value: unknown): string | null {
  const milliseconds = typeof value === 'string' ? (parse(value) ?? 0) : 0;
  if (milliseconds <= 0)
    return `expected a duration such as "30s" or "1h", got ${JSON.stringify(value)}`;
  if (milliseconds > LONGEST_MS)
    return `expected a duration of at most 10 years, got ${JSON.stringify(value)}`;
  return null;
}

/** Milliseconds of a validated duration. */
export function toMs(duration: string): number {
  const value = parse(duration);
  if (value === undefined) throw new RangeError(`not a duration: ${duration}`);
  return value;
}

/** A number needs its unit: `ms('90')` would be 90 milliseconds, which nobody who forgets the unit means. */
function parse(text: string): number | undefined {
  if (!/^\d+(\.\d+)?\s*[a-z]+$/i.test(text)) return undefined;
  // Its types know literals only; at run time it returns undefined for what it cannot read.
  return ms(text as ms.StringValue);
}
