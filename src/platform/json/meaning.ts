import { foldJson, type Making } from './fold.js';

/** JSON without what its writer chose: blanks, escapes, the order of names, `1.0` for 1. Other text stays. */
export function meaningOfJson(text: string): string {
  try {
    return foldJson(text, MEANING);
  } catch {
    return `text ${text}`;
  }
}

const MEANING: Making<string> = {
  string: (value) => JSON.stringify(value),
  number: meaningOfNumber,
  word: String,
  list: (items) => `[${items.join(',')}]`,
  object: (members) => sorted([...new Map(members)]),
};

/** Beyond what a double holds, the digits count. */
function meaningOfNumber(text: string): string {
  const value = Number(text);
  const isWhole = /^-?\d+$/.test(text);
  const isExact = isWhole ? Number.isSafeInteger(value) : Number.isFinite(value) && value !== 0;
  return isExact || /^-?[0.]+(?:[eE].*)?$/.test(text) ? String(value + 0) : text;
}

const sorted = (members: [name: string, meaning: string][]): string =>
  `{${members
    .sort(([a], [b]) => (a < b ? -1 : 1))
    .map(([name, meaning]) => `${JSON.stringify(name)}:${meaning}`)
    .join(',')}}`;
