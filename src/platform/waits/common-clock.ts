/**
 * One clock for all hosts of a deployment, the Temporal server's: what one host writes down and another compares with
 * its own time uses it. A process has one, because journals, pauses and waits meet in it.
 */

/** Clocks that differ by less are left alone: the difference would be lost among the delays of messages. */
const TOLERATED_MS = 5000;

let ahead_ms = 0;

/** Milliseconds since 1970. It does not jump when somebody sets this host's clock. */
export const hostMs = (): number => performance.timeOrigin + performance.now();

/** Seconds since 1970 by the common clock; by this host's own until somebody has compared the two. */
export const commonS = (): number => (hostMs() - ahead_ms) / 1000;

/** Whole milliseconds, like `Date.now`: timers drop fractions, and would fire before a limit that has one. */
export const commonMs = (): number => Math.floor(hostMs() - ahead_ms);

/** Takes by how much this host's clock is ahead of the server's. Returns whether it is too much, and news. */
export function takeAhead(measured_ms: number): boolean {
  const before = ahead_ms;
  ahead_ms = isTooMuch(measured_ms) ? measured_ms : 0;
  return ahead_ms !== 0 && isTooMuch(ahead_ms - before);
}

const isTooMuch = (difference_ms: number): boolean => Math.abs(difference_ms) > TOLERATED_MS;

/** `3600 s ahead of`, `3600 s behind`. */
export function differenceText(ahead: number): string {
  const seconds = `${Math.round(Math.abs(ahead) / 1000)} s`;
  return ahead > 0 ? `${seconds} ahead of` : `${seconds} behind`;
}
