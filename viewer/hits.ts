import type { Hit } from './documents.js';

/** A text of a rollout, with the name of its place. A browser reads this file, too. */
export interface Placed {
  place: string;
  text: string;
}

/** As much of a text as a line shows beside what was found. */
const AROUND = 60;

/** Where these texts have the words, whatever their case: once a text. */
export function* hitsAt(
  { row, repeat }: Pick<Hit, 'row' | 'repeat'>,
  { texts, words }: { texts: Iterable<Placed>; words: string },
): Generator<Hit> {
  if (words === '') return;
  const pattern = new RegExp(words.replace(/[\\^$.*+?()[\]{}|/-]/g, String.raw`\$&`), 'i');
  for (const { place, text } of texts) {
    const match = pattern.exec(text);
    if (match === null) continue;
    const [found] = match;
    const end = match.index + found.length;
    const before = text.slice(Math.max(0, match.index - AROUND), match.index);
    yield { row, repeat, place, before, found, after: text.slice(end, end + AROUND) };
  }
}
