/** Monotonic time, in milliseconds. */

export interface Clock {
  now: () => number;
  /** Calls `run` once after that time, never earlier. Returns what cancels it. It keeps no process alive. */
  after: (delayMs: number, run: () => void) => () => void;
}

export const SYSTEM_CLOCK: Clock = {
  now: () => performance.now(),
  after: (delayMs, run) => {
    // Node cuts a delay to whole milliseconds, and may still fire within the last one.
    const timer = setTimeout(run, Math.ceil(delayMs) + 1).unref();
    return () => {
      clearTimeout(timer);
    };
  },
};

/** Longer timers end at once. */
export const LONGEST_TIMER_MS = 2 ** 31 - 1;

/** How long who calls again waits behind a fault: each wait is twice as long as the one before, up to 15 s. */

const LONGEST_WAIT_MS = 15_000;

/** `tries`: how many have failed. */
export const waitMs = (tries: number, { first_ms }: { first_ms: number }): number =>
  Math.min(first_ms * 2 ** (tries - 1), LONGEST_WAIT_MS);
