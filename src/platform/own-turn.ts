import { setImmediate as nextTurn } from 'node:timers/promises';

/** The event loop is the process's own, and so is the line before it. */
let last: Promise<void> = Promise.resolve();

/**
 * Resolves in a turn of the event loop that nobody else has who asked here: long work in slices holds up the rest of the
 * process by one slice at a time, however many do such work.
 */
export function ownTurn(): Promise<void> {
  last = last.then(() => nextTurn());
  return last;
}
