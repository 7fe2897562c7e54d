/** How long who calls again waits behind a fault: each wait is twice as long as the one before, up to 15 s. */

const LONGEST_WAIT_MS = 15_000;

/** `tries`: how many have failed. */
export const waitMs = (tries: number, { first_ms }: { first_ms: number }): number =>
  Math.min(first_ms * 2 ** (tries - 1), LONGEST_WAIT_MS);
