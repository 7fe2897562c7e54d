import { hash32 } from '../src/model/workflow-safe/hash32.js';

/** Numbers in [0, 1). */
export type Random = () => number;

/** A stream of numbers (mulberry32): equal seeds give equal streams on any machine. Any integer is a seed. */
export function createRandom(seed: number): Random {
  let state = hash32([seed]);
  return () => {
    state = (state + 0x6d2b79f5) | 0;
    let mixed = Math.imul(state ^ (state >>> 15), state | 1);
    mixed ^= mixed + Math.imul(mixed ^ (mixed >>> 7), mixed | 61);
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 2 ** 32;
  };
}
