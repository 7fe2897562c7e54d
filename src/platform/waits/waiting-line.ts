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
 * First come, first served, unless `precedes` lets another go before those that came earlier. `admit` takes a place for
 * the first in line and returns it. null: there is no room for it, nor for those after it.
 */
export function createWaitingLine<Wish, Place>(
  admit: (wish: Wish) => Place | null,
  precedes?: (one: Wish, earlier: Wish) => boolean,
): WaitingLine<Wish, Place> {
  interface Waiter {
    wish: Wish;
    grant: (place: Place) => void;
  }
  const waiting = new Set<Waiter>();

  // Who goes first depends on who holds places, so it is decided for each place.
  const firstInLine = (): Waiter | undefined => {
    let [first] = waiting;
    if (first === undefined || precedes === undefined) return first;
    for (const one of waiting) if (precedes(one.wish, first.wish)) first = one;
    return first;
  };

  const serve = (): void => {
    for (let first = firstInLine(); first !== undefined; first = firstInLine()) {
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
