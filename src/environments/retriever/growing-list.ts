type Numbers = Uint32Array<ArrayBuffer> | Float64Array<ArrayBuffer>;

/** A growing list of numbers, eight or four bytes each: a plain array of ten million costs twice that and moves. */
function createGrowingList<T extends Numbers>(make: (length: number) => T) {
  let values = make(1024);
  let length = 0;
  return {
    push: (value: number): void => {
      if (length === values.length) {
        const larger = make(2 * length);
        larger.set(values);
        values = larger;
      }
      values[length] = value;
      length += 1;
    },
    /** Adds one to the number at a place that there is. */
    count: (place: number): void => {
      values[place] = (values[place] ?? 0) + 1;
    },
    at: (place: number): number => (place < length ? (values[place] ?? 0) : 0),
    length: (): number => length,
    /** A view: later additions may not show in it. */
    values: (): T => values.subarray(0, length) as T,
    clear: (): void => {
      length = 0;
    },
  };
}

export const listOfUint32 = () => createGrowingList((length) => new Uint32Array(length));
export const listOfFloat64 = () => createGrowingList((length) => new Float64Array(length));
