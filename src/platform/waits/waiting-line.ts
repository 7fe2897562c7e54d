export interface WaitingLine<Wish, Place> {
  /**
   * Waits for a place; rejects with the signal's reason. The caller gives its place back by its own means and then
   * calls `serve`.
   */
  join: (wish: Wish, signal: AbortSignal) => Promise<Place>;
  /** Call this when there may be room. */
  serve: () => void;
  /** How many wait. */
  length: () => number;
}

/**
 * First come, first served. `admit` takes a place for the first in line and returns it. null: there is no room for it,
 * nor for those after it.
 */
export function createWaitingLine<Wish, Place>(
  admit: (wish: Wish) => Place | null,
): WaitingLine<Wish, Place> {
  const waiting = new Set<{ wish: Wish; grant: (place: Place) => void }>();

  const serve = (): void => {
    for (const first of waiting) {
      const place = admit(first.wish);
      if (place === null) return;
      waiting.delete(first);
      first.grant(place);
    }
  };

  return {
    serve,
    length: () => waiting.size,
    join: (wish, signal) =>
      new Promise((resolve, reject) => {
        signal.throwIfAborted();
        const leave = (): void => {
          waiting.delete(waiter);
          reject(signal.reason as Error);
          // There may be room for the next one even if there was none for the first.
          serve();
        };
        const waiter = {
          wish,
          // At once, not when the promise settles: an abort in between would lose the place.
          grant: (place: Place): void => {
            signal.removeEventListener('abort', leave);
            resolve(place);
          },
        };
        signal.addEventListener('abort', leave, { once: true });
        waiting.add(waiter);
        serve();
      }),
  };
}
