/**
 * What an attempt waits for, and how it says so: each heartbeat has it, for whoever asks Temporal (workers/wait-of.ts);
 * news is also a signal, because a workflow shows it and moves its deadline. A fault is in the journal besides, counted
 * (model/journal/standing.ts).
 */
import type { FaultType, Waited } from '../model/faults.js';
import { Fault, isTakenOver } from '../model/faults.js';
import { NO_ANSWER } from '../model/journal/standing.js';
import { REPAIR, timeText } from '../model/workflow-safe/waiting.js';
import { commonMs } from '../platform/waits/common-clock.js';
import type { Bug } from './failure.js';
import type { Waiting } from './contract.js';

/**
 * How many waits a process tells workflows at once, and how often it tells another one then. Each costs a signal and a
 * workflow task, and both again when it is over: ten thousand rollouts that wait for one engine would keep the server
 * busy with saying so. The batch's look finds what most of them wait for.
 */
const MOST_AT_ONCE = 64;
const EVERY_MS = 1000;

export type MayTell = ReturnType<typeof createTelling>;

/** Whether one more may be told now; it counts as told then. */
export function createTelling(now: () => number = () => performance.now()) {
  let left = MOST_AT_ONCE;
  let since = now();
  return (): boolean => {
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
  /** The workflow knows that no replica serves the rollout. */
  holds: boolean;
  /** While it waits, or when it has failed. */
  waits_for?: Waiting | null;
}

/** What the attempt waits for that made this heartbeat; null: nothing, or it is no heartbeat of an attempt. */
export const waitIn = (heartbeat: unknown): Waiting | null =>
  (heartbeat as Partial<Told> | null | undefined)?.waits_for ?? null;

/** Below the first try, so that the first failure is news. */
const NO_TRY = 0.5;

/**
 * Signals only news: the wait begins, was tried twice as often, or is over, or whether a replica serves has changed. The
 * latter moves the deadline, so it is always told. The next heartbeat also has what was not told.
 */
export function createWaitReporter(
  { told, unserved, mayTell }: { told: Told; unserved: UnservedClock; mayTell: MayTell },
  signal: (waiting: Waiting | null) => Promise<void>,
): (waiting: Waiting | null) => Promise<void> {
  return async (waiting) => {
    const tries = waiting === null ? 0 : (waiting.tries ?? NO_TRY);
    const isUnserved = waiting?.holds === true;
    unserved.count(isUnserved);
    const isNews = waiting === null ? told.waiting > 0 : tries >= 2 * told.waiting;
    const movesDeadline = isUnserved !== told.holds;
    told.waits_for = waiting;
    if (waiting === null) told.since = null;
    if (!isNews && !movesDeadline) return;
    if (waiting !== null && !movesDeadline && !mayTell()) return;
    told.waiting = tries;
    told.holds = isUnserved;
    await signal(waiting);
  };
}

const WAITED_FOR: ReadonlySet<FaultType> = new Set([
  'GenerationUnavailable',
  'GenerationRejected',
  'EnvironmentUnavailable',
  'EnvironmentFailed',
  'AgentFailed',
  'StoreFault',
]);

/** Characters of a call or an answer, in each text. */
const MOST = 300;

/** What the next attempt is for, after the error of one; null: no other one will help. */
export function waitAfter(
  error: unknown,
  { bug, tries, told }: { bug: Bug | null; tries: number; told: Told },
): Waiting | null {
  const repair = bug && { service: REPAIR, message: bug.text.slice(0, MOST) };
  const isWaited =
    error instanceof Fault && error.retryable && WAITED_FOR.has(error.type) && !isTakenOver(error);
  const waited = isWaited ? waitOf(error) : repair;
  if (waited === null) return null;
  // The start of a wait that no journal counts.
  told.since ??= commonMs() / 1000;
  return { tries, since: timeText(told.since), ...waited };
}

/** Whom a fault lets wait for, and how it has answered. */
export const waitOf = (fault: Fault, waited: Waited | null = fault.waited): Waiting => ({
  service: (fault.at ?? waited?.call ?? fault.type).slice(0, MOST),
  message: fault.message.slice(0, MOST),
  ...(waited !== null && {
    call: waited.call.slice(0, MOST),
    tries: waited.tries,
    since: timeText(waited.since),
  }),
});

export interface AskedCall {
  /** Name of the call, as in `Waiting`. */
  call: string;
  /** When the last part of the answer came, in seconds since 1970; null: none has. */
  moved_at: () => number | null;
  /** Why there is no answer, as far as the service says it. */
  why?: () => Promise<string | null>;
}

/** Makes a call, and reports it while it brings no answer and no part of one. */
export async function askVisibly<T>(
  { call, moved_at, why = () => Promise.resolve(null) }: AskedCall,
  telling: {
    answer: () => Promise<T>;
    reportWaiting: ReturnType<typeof createWaitReporter>;
    silent_ms: number;
  },
): Promise<T> {
  const { answer, reportWaiting, silent_ms } = telling;
  const asked_at = commonMs();
  const reported = { silent: false };
  const look = (): void => {
    const moved_ms = Math.max(asked_at, (moved_at() ?? 0) * 1000);
    const isSilent = commonMs() - moved_ms >= silent_ms;
    if (isSilent === reported.silent) return;
    reported.silent = isSilent;
    if (!isSilent) void reportWaiting(null);
    else void say(timeText(moved_ms / 1000));
  };
  const say = async (since: string): Promise<void> => {
    const message = (await why()) ?? NO_ANSWER;
    if (reported.silent) await reportWaiting({ service: call, call, message, since });
  };
  const looking = setInterval(look, silent_ms / 4).unref();
  try {
    const answered = await answer();
    if (reported.silent) await reportWaiting(null);
    reported.silent = false;
    return answered;
  } finally {
    clearInterval(looking);
  }
}

export type UnservedClock = ReturnType<typeof createUnservedClock>;

/** Counts the time in which no replica serves the rollout. */
export function createUnservedClock(before_ms: number) {
  let over_ms = before_ms;
  let since: number | null = null;
  const ms = (): number => over_ms + (since === null ? 0 : performance.now() - since);
  return {
    ms,
    count: (isUnserved: boolean): void => {
      over_ms = ms();
      since = isUnserved ? performance.now() : null;
    },
  };
}
