import { writeSync } from 'node:fs';
import { startThread } from '../../platform/process/threads.js';
import type { ModuleStart, News } from './wire.js';
import { LOAD_MS, NEWS_FD } from './wire.js';

/** Places of what a process shares with the thread that watches it. */
export const BEATS = 0;
export const LEFT = 1;
/** The earliest deadline of a call that it has begun, in ms since 1970; 0: none. */
export const DEADLINE = 2;

export interface Watched extends Pick<ModuleStart, 'worker'> {
  shared: BigInt64Array<SharedArrayBuffer>;
  patience_ms: number | null;
}

export const TICK_MS = 100;

/** At once, since a loop may follow. */
export function tell(news: News): void {
  writeSync(NEWS_FD, `${JSON.stringify(news)}\n`);
}

/** Watches this process by a thread, which a loop in the module does not hold. */
export function watchProcess({ worker, timeout_ms, patience_ms }: ModuleStart) {
  const shared = new BigInt64Array(new SharedArrayBuffer(3 * BigInt64Array.BYTES_PER_ELEMENT));
  /** In the order of their deadlines. */
  const deadlines = new Map<number, bigint>([[-1, deadlineIn(LOAD_MS)]]);
  const note = (): void => {
    const [earliest = 0n] = deadlines.values();
    Atomics.store(shared, DEADLINE, earliest);
  };
  note();
  setInterval(() => Atomics.add(shared, BEATS, 1n), TICK_MS);
  const workerData = { shared, worker, patience_ms } satisfies Watched;
  const thread = startThread({ beside: import.meta.url, name: 'watch-thread' }, { workerData });
  return {
    loaded: (has_sessions: boolean): void => {
      deadlines.clear();
      note();
      // Its sessions are variables of this process alone.
      if (has_sessions) thread.postMessage('stay');
    },
    isLeft: (): boolean => Atomics.load(shared, LEFT) === 1n,
    begin: (call: number): void => {
      tell({ kind: 'began', call });
      deadlines.set(call, deadlineIn(timeout_ms));
      note();
    },
    end: (call: number): void => {
      deadlines.delete(call);
      note();
    },
  };
}

const deadlineIn = (ms: number): bigint => BigInt(Date.now() + ms);
