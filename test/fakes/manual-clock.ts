import type { Clock } from '../../src/platform/waits/clock.js';

/** Time that advances only on request. */
export interface ManualClock extends Clock {
  /** Advances from timer to timer; pending work may continue in between. */
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

/** All settled promises have run their callbacks. */
export const settled = (): Promise<void> => new Promise((resolve) => setImmediate(resolve));
