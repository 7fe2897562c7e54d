import { onAbort } from './abort.js';

/** Which wish goes first. It may depend on who has places, so it is decided for each place. */
export interface Order<Wish> {
  /** Among wishes of one kind the first that came goes first, so that ten thousand of them are not all looked at. */
  kind: (wish: Wish) => string;
  precedes: (one: Wish, earlier: Wish) => boolean;
}

const AS_THEY_CAME: Order<unknown> = { kind: () => '', precedes: () => false };

interface Waiter<Wish, Place> {
  wish: Wish;
  /** Counts those that joined. */
  came: number;
  grant: (place: Place) => void;
}

/**
 * First come, first served, unless `order` lets another go before those that came earlier. `admit` takes a place for
 * the first in line and returns it. null: there is no room for it, nor for those after it.
 */
export function createWaitingLine<Wish, Place>(
  admit: (wish: Wish) => Place | null,
  order: Order<Wish> = AS_THEY_CAME,
) {
  const waiting = createOrdered<Waiter<Wish, Place>, Wish>(order);
  let joined = 0;

  /** Call this when there may be room. */
  const serve = (): void => {
    for (let first = waiting.first(); first !== undefined; first = waiting.first()) {
      const place = admit(first.wish);
      if (place === null) return;
      waiting.remove(first);
      first.grant(place);
    }
  };

  return {
    serve,
    /** How many wait. */
    length: waiting.length,
    /** Rejects with the signal's reason. Call `serve` after a place was given back. */
    join: (wish: Wish, signal: AbortSignal) =>
      new Promise<Place>((resolve, reject) => {
        signal.throwIfAborted();
        const leave = (): void => {
          waiting.remove(waiter);
          reject(signal.reason as Error);
          // There may be room for the next one even if there was none for the first.
          serve();
        };
        const ignore = onAbort(signal, leave);
        const waiter = {
          wish,
          came: (joined += 1),
          // At once, not when the promise settles: an abort in between would lose the place.
          grant: (place: Place): void => {
            ignore();
            resolve(place);
          },
        };
        waiting.add(waiter);
        serve();
      }),
  };
}

function createOrdered<One extends { wish: Wish; came: number }, Wish>({
  kind,
  precedes,
}: Order<Wish>) {
  const kinds = new Map<string, Set<One>>();
  let length = 0;
  const goesBefore = (one: One, other: One): boolean =>
    one.came < other.came ? !precedes(other.wish, one.wish) : precedes(one.wish, other.wish);
  return {
    length: () => length,
    add: (one: One): void => {
      const own = kind(one.wish);
      kinds.set(own, (kinds.get(own) ?? new Set()).add(one));
      length += 1;
    },
    remove: (one: One): void => {
      const own = kind(one.wish);
      const alike = kinds.get(own);
      if (alike?.delete(one) !== true) return;
      length -= 1;
      if (alike.size === 0) kinds.delete(own);
    },
    first: (): One | undefined => {
      let first: One | undefined;
      for (const [one] of kinds.values())
        if (one !== undefined && (first === undefined || goesBefore(one, first))) first = one;
      return first;
    },
  };
}
