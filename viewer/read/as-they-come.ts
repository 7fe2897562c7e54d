/** More would only fill memory: a store in files answers at once, and one behind a network several. */
const AT_ONCE = 8;

/** What becomes of these, several at once, as it comes. Whoever stops reading stops the work. */
export async function* asTheyCome<T, R>(
  items: Iterable<T>,
  work: (item: T) => Promise<R>,
): AsyncGenerator<R> {
  const left = items[Symbol.iterator]();
  const running = new Set<Promise<Came<R>>>();
  for (;;) {
    while (running.size < AT_ONCE) {
      const next = left.next();
      if (next.done === true) break;
      const own: Promise<Came<R>> = work(next.value).then((result) => ({ own, result }));
      running.add(own);
    }
    if (running.size === 0) return;
    const { own, result } = await Promise.race(running);
    running.delete(own);
    yield result;
  }
}

interface Came<R> {
  own: Promise<Came<R>>;
  result: R;
}

export async function allOf<T>(of: AsyncIterable<T>): Promise<T[]> {
  const all: T[] = [];
  for await (const one of of) all.push(one);
  return all;
}
