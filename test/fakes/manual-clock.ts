import type { Clock } from '../../src/platform/waits/clock.js';

/** Time that passes only on request. */
export interface ManualClock extends Clock {
  /** Moves on, timer by timer; between two, pending work may continue. */
  pass: (ms: number) => Promise<void>;
  /** How many timers run. */
  timers: () => number;
}

export function manualClock(): ManualClock {
  let now = 0;
  const timers = new Set<{ at: number; run: () => void }>();
  return {
    now: () => now,
    after: (delayMs, run) => {
      const timer = { at: now + Math.max(0, delayMs), run };
      timers.add(timer);
      return () => {
        timers.delete(timer);
      };
    },
    pass: async (ms) => {
      const end = now + ms;
      for (;;) {
        const [next] = [...timers].filter(({ at }) => at <= end).sort((a, b) => a.at - b.at);
        if (next === undefined) break;
        timers.delete(next);
        now = next.at;
        next.run();
        await settled();
      }
      now = end;
    },
    timers: () => timers.size,
  };
}

/** Promises that are kept have had their say. */
export const settled = (): Promise<void> => new Promise((resolve) => setImmediate(resolve));
