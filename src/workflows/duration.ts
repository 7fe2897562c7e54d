const DAY_MS = 86_400_000;

const UNITS: readonly (readonly [names: readonly string[], milliseconds: number])[] = [
  [['ms', 'msec', 'msecs', 'millisecond', 'milliseconds'], 1],
  [['s', 'sec', 'secs', 'second', 'seconds'], 1000],
  [['m', 'min', 'mins', 'minute', 'minutes'], 60_000],
  [['h', 'hr', 'hrs', 'hour', 'hours'], 3_600_000],
  [['d', 'day', 'days'], DAY_MS],
  [['w', 'week', 'weeks'], 7 * DAY_MS],
  [['y', 'yr', 'yrs', 'year', 'years'], 365.25 * DAY_MS],
];

/**
 * Milliseconds of a duration such as `90s`; null for anything else. What is a duration is said by `Duration` of the
 * model; workflow code imports no package, hence no `ms`, and a test holds the two together.
 */
export function durationMs(value: unknown): number | null {
  if (typeof value !== 'string') return null;
  const [, amount, unit] = /^(\d+(?:\.\d+)?)\s*([a-z]+)$/i.exec(value) ?? [];
  const [, milliseconds] = UNITS.find(([names]) => names.includes(unit?.toLowerCase() ?? '')) ?? [];
  return milliseconds === undefined ? null : Number(amount) * milliseconds;
}

/** Timers refuse more than they can count. */
const LONGEST_MS = 10 * 365.25 * DAY_MS;

/** What keeps a value from being a positive duration; null: nothing. */
export function durationProblem(value: unknown): string | null {
  const milliseconds = durationMs(value) ?? 0;
  if (milliseconds <= 0)
    return `expected a duration such as "30s" or "1h", got ${JSON.stringify(value)}`;
  if (milliseconds > LONGEST_MS)
    return `expected a duration of at most 10 years, got ${JSON.stringify(value)}`;
  return null;
}
