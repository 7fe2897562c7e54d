import { ownTurn } from './own-turn.js';

/** More would only fill memory: what is in files answers at once, and what is behind a network several. */
const AT_ONCE = 8;
/** How long the work goes on without a turn of the event loop: others wait for theirs. */
const SLICE_MS = 5;

/** The results, in the order of the items; several are worked on at once. A reader that stops stops the work. */
export async function* severalAtOnce<T, R>(
  items: Iterable<T>,
  work: (item: T) => Promise<R>,
): AsyncGenerator<R> {
  const left = items[Symbol.iterator]();
  const running: Promise<R>[] = [];
  let since = performance.now();
  for (;;) {
    while (running.length < AT_ONCE) {
      const next = left.next();
      if (next.done === true) break;
      const result = work(next.value);
      // Its reader gets the error, if there still is one.
      result.catch(() => undefined);
      running.push(result);
    }
    const first = running.shift();
    if (first === undefined) return;
    yield await first;
    if (performance.now() - since < SLICE_MS) continue;
    await ownTurn();
    since = performance.now();
  }
}

export async function allOf<T>(of: AsyncIterable<T>): Promise<T[]> {
  const all: T[] = [];
  for await (const one of of) all.push(one);
  return all;
}

const FIRST = 64;

/** In lists, each twice as long as the one before: the first come early, and there are few. */
export async function* inLists<T>(of: AsyncIterable<T>): AsyncGenerator<T[]> {
  let most = FIRST;
  let list: T[] = [];
  for await (const one of of) {
    list.push(one);
    if (list.length < most) continue;
    yield list;
    list = [];
    most *= 2;
  }
  if (list.length > 0) yield list;
}
