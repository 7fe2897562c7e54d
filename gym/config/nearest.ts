/** The name that a typing mistake most likely meant; null: none is within `mistakes` letters. */
function nearest(name: string, { known, mistakes }: { known: Iterable<string>; mistakes: number }) {
  let best: string | null = null;
  let least = mistakes + 1;
  for (const candidate of known) {
    const distance = editDistance(name, candidate);
    if (distance < least) [best, least] = [candidate, distance];
  }
  return best;
}

/** A suggestion for a name that is not known; '' where none is near. */
export function didYouMean(name: string, known: Iterable<string>): string {
  const near = nearest(name, { known, mistakes: Math.max(2, Math.floor(name.length / 3)) });
  return near === null ? '' : `. Did you mean ${near}?`;
}

/** Hardly a name of its own: one letter off. */
export const isTypingMistake = (name: string, known: Iterable<string>): boolean =>
  nearest(name, { known, mistakes: 1 }) !== null;

/** Levenshtein's. */
function editDistance(a: string, b: string): number {
  let row = Array.from({ length: b.length + 1 }, (_, index) => index);
  for (let i = 1; i <= a.length; i++) {
    const next = [i];
    for (let j = 1; j <= b.length; j++) {
      const replaced = (row[j - 1] ?? 0) + (a.charAt(i - 1) === b.charAt(j - 1) ? 0 : 1);
      next.push(Math.min(replaced, (row[j] ?? 0) + 1, (next[j - 1] ?? 0) + 1));
    }
    row = next;
  }
  return row[b.length] ?? 0;
}
