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
