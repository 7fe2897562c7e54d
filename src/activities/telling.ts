import type { HoldClock } from './hold-clock.js';
import type { Waiting } from './contract.js';

/**
 * How many waits a process tells workflows at once, and how often it tells another one then. Each costs a signal and a
 * workflow task, and both again when it is over: ten thousand rollouts that wait for one engine would keep the server
 * busy with saying so. The batch's look finds what most of them wait for.
 */
const MOST_AT_ONCE = 64;
const EVERY_MS = 1000;

/** Whether one more may be told now; it counts as told then. */
export type MayTell = () => boolean;

export function createTelling(now: () => number = () => performance.now()): MayTell {
  let left = MOST_AT_ONCE;
  let since = now();
  return () => {
    const more = Math.floor((now() - since) / EVERY_MS);
    left = Math.min(MOST_AT_ONCE, left + more);
    since += more * EVERY_MS;
    if (left === 0) return false;
    left -= 1;
    return true;
  };
}

/** Part of heartbeats, so that the next attempt knows it. */
export interface Told {
  /** Number of tries at the last signal; 0: the workflow knows of no wait. */
  waiting: number;
  since: number | null;
  /** The workflow knows that the rollout is held up. */
  holds: boolean;
  /** While it waits, or when it has failed: a batch reads it where no journal can say it. */
  waits_for?: Waiting | null;
}

/** Below the first try, so that the first failure is news. */
const NO_TRY = 0.5;

/**
 * Signals only news: the wait begins, holds the rollout up, was tried twice as often, or is over. That it holds the
 * rollout up moves its deadline, so it is always told. The next heartbeat also has what was not told.
 */
export function createWaitReporter(
  { details, held, mayTell }: { details: Told; held: HoldClock; mayTell: MayTell },
  signal: (waiting: Waiting | null) => Promise<void>,
): (waiting: Waiting | null) => Promise<void> {
  return async (waiting) => {
    const tries = waiting === null ? 0 : (waiting.tries ?? NO_TRY);
    const holds = waiting?.holds === true;
    held.count(holds);
    const isNews = waiting === null ? details.waiting > 0 : tries >= 2 * details.waiting;
    const movesDeadline = holds !== details.holds;
    if (waiting === null) details.since = null;
    if (isNews || movesDeadline || (waiting === null && details.waits_for))
      details.waits_for = waiting;
    if (!isNews && !movesDeadline) return;
    if (waiting !== null && !movesDeadline && !mayTell()) return;
    details.waiting = tries;
    details.holds = holds;
    await signal(waiting);
  };
}
