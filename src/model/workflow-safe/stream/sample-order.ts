import { hash32 } from '../hash32.js';

export interface StreamPlace {
  sample_row: number;
  /** Counted from 0: how often all samples were played before. */
  epoch: number;
}

/** From its number alone: each epoch has its own order, and no state is needed. */
export function placeOfGroup(
  group: number,
  { samples, shuffle, seed }: { samples: number; shuffle: boolean; seed: number },
): StreamPlace {
  const epoch = Math.floor(group / samples);
  const at = group % samples;
  const sample_row = shuffle ? permuted(at, { size: samples, key: [seed, epoch] }) : at;
  return { sample_row, epoch };
}

const ROUNDS = 6;
/** Minimum of both halves: a network over fewer numbers has too few permutations. */
const LEAST_BITS = 3;

/** A permutation by the key: a Feistel network over a power of two, repeated until the result is below `size`. */
function permuted(at: number, { size, key }: { size: number; key: readonly number[] }): number {
  const bits = Math.max(LEAST_BITS, Math.ceil(Math.log2(size) / 2));
  const half = 2 ** bits;
  let value = at;
  do {
    let [left, right] = [Math.floor(value / half), value % half];
    for (let round = 0; round < ROUNDS; round++)
      [left, right] = [right, (left ^ hash32([...key, round, right])) & (half - 1)];
    value = left * half + right;
  } while (value >= size);
  return value;
}
