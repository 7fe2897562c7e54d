import type { BatchRequest } from '../batch-request.js';

/** Where in a batch a generation stands: what its seed is derived from. */
export interface SeedPlace {
  row: number;
  repeat: number;
  turn: number;
  /** Tokens of the turn that came from an earlier attempt: a resumed stream must not replay the first one's draws. */
  inherited: number;
}

/** The 32-bit seed of one request, or null for none. Equal inputs give equal seeds on any machine. */
export function seedOf(
  { generation, num_repeats_add_seed }: Pick<BatchRequest, 'generation' | 'num_repeats_add_seed'>,
  { row, repeat, turn, inherited }: SeedPlace,
): number | null {
  if (num_repeats_add_seed) return inherited === 0 ? repeat : hash32([repeat, inherited]);
  if (generation.seed === null) return null;
  return hash32([generation.seed, row, repeat, turn, inherited]);
}

/** MurmurHash3's mixing over 32-bit words: small, and without the patterns of a sum. */
export function hash32(words: readonly number[]): number {
  let h = 0x9747b28c;
  for (const word of words) {
    // Seeds may exceed 32 bits: both halves count.
    for (const half of [word >>> 0, Math.floor(word / 0x1_0000_0000) >>> 0]) {
      let k = Math.imul(half, 0xcc9e2d51);
      k = Math.imul((k << 15) | (k >>> 17), 0x1b873593);
      h ^= k;
      h = Math.imul((h << 13) | (h >>> 19), 5) + 0xe6546b64;
    }
  }
  h ^= h >>> 16;
  h = Math.imul(h, 0x85ebca6b);
  h ^= h >>> 13;
  h = Math.imul(h, 0xc2b2ae35);
  return (h ^ (h >>> 16)) >>> 0;
}
