import { setImmediate as nextTurn } from 'node:timers/promises';

/** One line per process, because a process has one event loop. */
let last: Promise<void> = Promise.resolve();

/** Resolves in a turn of its own: work in slices blocks the process by one at a time, however many do such work. */
export function ownTurn(): Promise<void> {
  last = last.then(() => nextTurn());
  return last;
}
