import type { FinishedRollout, FinishedRollouts } from '../environment.js';
import type { ModuleThread } from './module-thread.js';
import type { CallBody } from './wire.js';
import { errorOf, type Outcome } from './wire.js';

/** A call without an answer. */
export interface PendingCall {
  id: number;
  body: CallBody;
  /** The thread that has begun it; null: none has. */
  on: ModuleThread | null;
  /** Its deadline has passed. */
  late: boolean;
  nextRollout: () => Promise<FinishedRollout | null>;
}

export interface PendingCalls {
  /** Resolves with the answer; rejects with the module's error, or the error of `fail`. */
  add: (
    body: CallBody,
    rollouts?: FinishedRollouts,
  ) => { one: PendingCall; answer: Promise<unknown> };
  get: (id: number) => PendingCall | undefined;
  /** In the order in which threads began them, followed by those that none has begun. */
  all: () => PendingCall[];
  /** Its deadline runs from now on. */
  begin: (id: number, on: ModuleThread) => void;
  settle: (id: number, outcome: Outcome) => void;
  fail: (id: number, error: Error) => void;
}

interface Waiting {
  one: PendingCall;
  resolve: (value: unknown) => void;
  reject: (error: Error) => void;
  timers: NodeJS.Timeout[];
}

/**
 * `passed`: the deadline of a call has passed. `slow`: it has been running for `patience_ms` again. `changed`: with their
 * number.
 */
export function pendingCalls({
  timeout_ms,
  patience_ms,
  passed,
  slow,
  changed,
}: {
  timeout_ms: number;
  patience_ms: number;
  passed: (one: PendingCall) => void;
  slow: (one: PendingCall) => void;
  changed: (count: number) => void;
}): PendingCalls {
  const waiting = new Map<number, Waiting>();
  let calls = 0;
  const take = (id: number): Waiting | undefined => {
    const found = waiting.get(id);
    found?.timers.forEach(clearTimeout);
    waiting.delete(id);
    if (found !== undefined) changed(waiting.size);
    return found;
  };
  return {
    add: (body, rollouts) => {
      const id = calls++;
      const one = { id, body, on: null, late: false, nextRollout: readerOf(rollouts) };
      const answer = new Promise<unknown>((resolve, reject) => {
        waiting.set(id, { one, timers: [], resolve, reject });
      });
      changed(waiting.size);
      return { one, answer };
    },
    get: (id) => waiting.get(id)?.one,
    all: () => {
      const all = [...waiting.values()].map(({ one }) => one);
      return [...all.filter(({ on }) => on !== null), ...all.filter(({ on }) => on === null)];
    },
    begin: (id, on) => {
      const found = waiting.get(id);
      if (found === undefined) return;
      waiting.delete(id);
      waiting.set(id, found);
      const { one } = found;
      one.on = on;
      const late = setTimeout(() => {
        one.late = true;
        passed(one);
      }, timeout_ms);
      found.timers = [late, setInterval(slow, patience_ms, one)];
    },
    settle: (id, outcome) => {
      const found = take(id);
      if ('error' in outcome) found?.reject(errorOf(outcome.error));
      else found?.resolve(outcome.value);
    },
    fail: (id, error) => take(id)?.reject(error),
  };
}

function readerOf(rollouts: FinishedRollouts | undefined): PendingCall['nextRollout'] {
  if (rollouts === undefined) return () => Promise.resolve(null);
  const iterator =
    Symbol.asyncIterator in rollouts
      ? rollouts[Symbol.asyncIterator]()
      : rollouts[Symbol.iterator]();
  return async () => {
    const next = await iterator.next();
    return next.done === true ? null : next.value;
  };
}
