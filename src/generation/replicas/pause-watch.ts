import { orAborted } from '../../platform/waits/abort.js';
import type { Clock } from '../../platform/waits/clock.js';

/** How often a paused engine is asked, whatever the number of waiters. */
const ASK_EVERY_MS = 250;

/** Resolves once the pause is over; rejects with the signal's reason. */
export type PauseOver = (signal: AbortSignal) => Promise<void>;

/**
 * Waits for the end of an engine's pause, with one question at a time for all waiters. It ends when the engine no
 * longer says that it is paused (a dead one does not), or with the signal. Other code limits the pause.
 */
export function createPauseWatch({
  isPaused,
  clock,
}: {
  isPaused: () => Promise<boolean>;
  clock: Clock;
}): PauseOver {
  const waiting = new Set<() => void>();
  let isAsking = false;

  const askLater = (): void => {
    isAsking = waiting.size > 0;
    if (isAsking) clock.after(ASK_EVERY_MS, () => void ask());
  };
  const ask = async (): Promise<void> => {
    // An answer only applies to those that waited when the question was sent.
    const asking = [...waiting];
    if (asking.length > 0 && !(await isPaused())) {
      for (const goOn of asking) {
        waiting.delete(goOn);
        goOn();
      }
    }
    askLater();
  };
  return async (signal) => {
    signal.throwIfAborted();
    let goOn = (): void => undefined;
    const over = new Promise<void>((resolve) => {
      goOn = resolve;
    });
    waiting.add(goOn);
    if (!isAsking) askLater();
    try {
      await orAborted(over, signal);
    } finally {
      waiting.delete(goOn);
    }
  };
}
