/** Monotonic time, in milliseconds. */
export interface Clock {
  now: () => number;
  /** Calls `run` once, later; does not keep the process alive. Returns what cancels it. */
  after: (delayMs: number, run: () => void) => () => void;
}

export const SYSTEM_CLOCK: Clock = {
  now: () => performance.now(),
  after: (delayMs, run) => {
    const timer = setTimeout(run, delayMs).unref();
    return () => {
      clearTimeout(timer);
    };
  },
};
