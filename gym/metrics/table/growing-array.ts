const CHUNK_BITS = 16;
const CHUNK = 1 << CHUNK_BITS;

type Numbers = Float64Array | Uint32Array | Uint8Array;

/** A typed array that grows by chunks: nothing is copied, and at most one chunk is empty. */
function createGrowingArray(chunk: (length: number) => Numbers) {
  const chunks: Numbers[] = [];
  let length = 0;
  return {
    get length(): number {
      return length;
    },
    push: (value: number): void => {
      const place = length & (CHUNK - 1);
      if (place === 0) chunks.push(chunk(CHUNK));
      const last = chunks[length >>> CHUNK_BITS];
      if (last !== undefined) last[place] = value;
      length += 1;
    },
    /** The value at an index below `length`. */
    at: (index: number): number =>
      chunks[index >>> CHUNK_BITS]?.[index & (CHUNK - 1)] ?? Number.NaN,
  };
}

export const growingDoubles = () => createGrowingArray((length) => new Float64Array(length));
export const growingIntegers = () => createGrowingArray((length) => new Uint32Array(length));
export const growingBytes = () => createGrowingArray((length) => new Uint8Array(length));

/** Things numbered in the order in which they first come. */
export function createNumbering<T>() {
  const all: T[] = [];
  const numberOf = new Map<T, number>();
  return {
    all: all as readonly T[],
    of: (one: T): number => {
      const known = numberOf.get(one);
      if (known !== undefined) return known;
      numberOf.set(one, all.length);
      return all.push(one) - 1;
    },
  };
}
