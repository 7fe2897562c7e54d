import { distance } from 'fastest-levenshtein';

/**
 * The name that a typing mistake most likely meant; the first one if several are equally near. null: none is within
 * `mistakes` letters.
 */
export function nearest(
  name: string,
  { known, mistakes }: { known: Iterable<string>; mistakes: number },
): string | null {
  let best: string | null = null;
  let least = mistakes + 1;
  for (const candidate of known) {
    const far = distance(name, candidate);
    if (far < least) [best, least] = [candidate, far];
  }
  return best;
}
