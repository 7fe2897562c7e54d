import { hash32 } from '../turn/seeds.js';
import type { StreamSettings } from './stream-request.js';

/** Which sample a stream's group plays. */
export interface StreamPlace {
  sample_row: number;
  epoch: number;
}

/**
 * The sample of a group by its number alone: an order of all samples for each epoch, so that nothing has to remember
 * who was played. `samples`: how many there are.
 */
export function placeOfGroup(
  group: number,
  { samples, shuffle, seed }: Pick<StreamSettings, 'shuffle' | 'seed'> & { samples: number },
): StreamPlace {
  const epoch = Math.floor(group / samples);
  const at = group % samples;
  const sample_row = shuffle ? permuted(at, { size: samples, key: [seed, epoch] }) : at;
  return { sample_row, epoch };
}

const ROUNDS = 6;

/**
 * Where a number below `size` goes in a permutation that the key chooses: a Feistel network over the next even power of
 * two, walked until it is back below `size` (at most four steps on average).
 */
function permuted(at: number, { size, key }: { size: number; key: readonly number[] }): number {
  const half = Math.max(1, Math.ceil(Math.log2(size) / 2));
  const mask = 2 ** half - 1;
  let value = at;
  do {
    let [left, right] = [Math.floor(value / 2 ** half), value & mask];
    for (let round = 0; round < ROUNDS; round++)
      [left, right] = [right, (left ^ hash32([...key, round, right])) & mask];
    value = left * 2 ** half + right;
  } while (value >= size);
  return value;
}
