import ms from 'ms';
import { z } from 'zod';

/** Timers refuse more than they can count, some of them only when they are set. */
const LONGEST_MS = ms('10y');

/** A positive duration as people write it: `500ms`, `2s`, `5m`, `1h`. Kept as written, so that files read well. */
export const Duration = z
  .string()
  .refine((text) => (parse(text) ?? 0) > 0, {
    error: (issue) =>
      `expected a duration such as "30s" or "1h", got ${JSON.stringify(issue.input)}`,
  })
  .refine((text) => (parse(text) ?? 0) <= LONGEST_MS, {
    error: (issue) => `expected a duration of at most 10 years, got ${JSON.stringify(issue.input)}`,
  });

/** Milliseconds of a validated {@link Duration}. */
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
