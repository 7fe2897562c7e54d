import { setImmediate as nextTurn } from 'node:timers/promises';

/** One line per process, because a process has one event loop. */
let last: Promise<void> = Promise.resolve();

/**
 * Resolves in a turn of the event loop of its own. Long work in slices then blocks the process by one slice at a time,
 * however many callers do such work.
 */
export function ownTurn(): Promise<void> {
  last = last.then(() => nextTurn());
  return last;
}
