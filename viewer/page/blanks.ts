import { plural } from './words.js';

const KINDS: [RegExp, string][] = [
  [/^\n$/, 'line break'],
  [/^ $/, 'space'],
  [/^\t$/, 'tab'],
];

/** White space at the end of a text in words, as `1 space, 2 line breaks`; null: it ends with none. */
export function blanksOf(text: string): string | null {
  const blanks = text.slice(text.trimEnd().length);
  if (blanks === '') return null;
  return [...blanks.matchAll(/(.)\1*/gsu)]
    .map(([run, one = '']) => {
      const name = KINDS.find(([kind]) => kind.test(one))?.[1] ?? 'other blank';
      return plural(run.length, name);
    })
    .join(', ');
}
