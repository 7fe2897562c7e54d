import { isLosslessNumber } from 'lossless-json';
import type { Json } from '../json/lossless.js';
import { entriesOf } from '../json/order.js';
import { numberText } from './numbers.js';

/** `str(value)` of parsed JSON: what a template shows. */
export const strOf = (value: Json): string => (typeof value === 'string' ? value : reprOf(value));

/** `repr(value)` of parsed JSON. */
export function reprOf(value: Json): string {
  if (value === null) return 'None';
  if (typeof value === 'boolean') return value ? 'True' : 'False';
  if (typeof value === 'string') return quote(value);
  if (isLosslessNumber(value)) return numberText(value);
  if (Array.isArray(value)) return `[${value.map(reprOf).join(', ')}]`;
  const entries = entriesOf(value).map(([key, item]) => `${quote(key)}: ${reprOf(item)}`);
  return `{${entries.join(', ')}}`;
}

/** `ascii(value)`: non-ASCII characters are escaped. */
export const asciiOf = (value: Json): string => reprOf(value).replace(/[^\0-\x7f]/gu, escape);

const SHORT: Partial<Record<string, string>> = {
  '\\': '\\\\',
  '\n': '\\n',
  '\r': '\\r',
  '\t': '\\t',
};

/**
 * Not `str.isprintable()`: controls, unassigned and private characters, lone surrogates, and all white space except the
 * blank.
 */
const UNPRINTABLE = /^(?! )[\p{C}\p{Z}]$/u;

function quote(text: string): string {
  const mark = text.includes("'") && !text.includes('"') ? '"' : "'";
  const shown = Array.from(text, (character) => {
    if (character === mark) return `\\${mark}`;
    return SHORT[character] ?? (UNPRINTABLE.test(character) ? escape(character) : character);
  });
  return `${mark}${shown.join('')}${mark}`;
}

function escape(character: string): string {
  const point = character.codePointAt(0) ?? 0;
  const hex = point.toString(16);
  if (point <= 0xff) return `\\x${hex.padStart(2, '0')}`;
  return point <= 0xffff ? `\\u${hex.padStart(4, '0')}` : `\\U${hex.padStart(8, '0')}`;
}
