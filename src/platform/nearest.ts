import { distance } from 'fastest-levenshtein';

/**
 * The name that a typing mistake most likely meant; the first one if several are equally near. null: none is within
 * `mistakes` letters. Two letters in each other's place are one mistake.
 */
export function nearest(
  name: string,
  { known, mistakes }: { known: Iterable<string>; mistakes: number },
): string | null {
  let best: string | null = null;
  let least = mistakes + 1;
  for (const candidate of known) {
    const far = isSwapped(name, candidate) ? 1 : distance(name, candidate);
    if (far < least) [best, least] = [candidate, far];
  }
  return best;
}

const isSwapped = (name: string, candidate: string): boolean =>
  distance(name, candidate) === 2 && sorted(name) === sorted(candidate);

const sorted = (text: string): string => Array.from(text).sort().join('');

/** The end of a message about an unknown name that a person typed: which of few names it probably means, or nothing. */
export function didYouMean(name: string, known: Iterable<string>): string {
  const meant = nearest(name, { known, mistakes: Math.min(2, Math.floor(name.length / 2)) });
  return meant === null ? '' : `; did you mean ${meant}?`;
}
