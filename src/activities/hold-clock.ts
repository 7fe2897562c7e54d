/** Counts the time in which no replica serves the rollout. */
export interface HoldClock {
  ms: () => number;
  count: (isHeld: boolean) => void;
}

export function createHoldClock(before_ms: number): HoldClock {
  let over_ms = before_ms;
  let since: number | null = null;
  const ms = (): number => over_ms + (since === null ? 0 : performance.now() - since);
  return {
    ms,
    count: (isHeld) => {
      over_ms = ms();
      since = isHeld ? performance.now() : null;
    },
  };
}
