import { setTimeout as sleep } from 'node:timers/promises';
import { orAborted } from '../platform/waits/abort.js';

export interface Following<T> {
  look: () => Promise<T>;
  /** Shows what a look has found; true: nothing more will come. */
  draw: (seen: T) => boolean;
  signal: AbortSignal;
  /** By default often enough for eyes, and seldom enough for a server. */
  every_ms?: number;
  /** The pause is at least so many times as long as the look took. */
  rest?: number;
}

/** Of a store: a third of the time at most goes into reading. */
export const SELDOM = { every_ms: 1000, rest: 2 };

/** Looks and draws until a drawing says that it is over, or the signal aborts. Resolves to whether it is over. */
export async function follow<T>(following: Following<T>): Promise<boolean> {
  const { look, draw, signal, every_ms = 500, rest = 0 } = following;
  try {
    for (;;) {
      signal.throwIfAborted();
      const began = performance.now();
      if (draw(await orAborted(look(), signal))) return true;
      const pause = Math.max(every_ms, rest * (performance.now() - began));
      await sleep(pause, undefined, { signal });
    }
  } catch (error) {
    if (signal.aborted) return false;
    throw error;
  }
}
