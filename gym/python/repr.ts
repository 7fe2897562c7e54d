import type { KeptJson } from '../../src/platform/json/kept.js';
import { isNumber, isObject, numberOf, type Json } from '../json/exact.js';
import { entriesOf } from '../../src/platform/json/order.js';
import { floatText } from '../../src/platform/python/numbers.js';

/** Python's truth: empty texts, lists and objects, 0, false and null are false. */
export function isTruthy(value: Json | undefined): boolean {
  if (value === undefined || value === null || value === false || value === '') return false;
  if (Array.isArray(value)) return value.length > 0;
  if (isObject(value)) return Object.keys(value).length > 0;
  return numberOf(value) !== 0;
}

/** `str(value)` of parsed JSON: what a template shows. */
export const strOf = (value: Json): string => (typeof value === 'string' ? value : reprOf(value));

/** `repr(value)` of parsed JSON. */
export function reprOf(value: Json): string {
  if (value === null) return 'None';
  if (typeof value === 'boolean') return value ? 'True' : 'False';
  if (typeof value === 'string') return quote(value);
  if (isNumber(value)) return intOf(value)?.toString() ?? floatText(Number(value.text));
  if (Array.isArray(value)) return `[${value.map(reprOf).join(', ')}]`;
  const entries = entriesOf(value).map(([key, item]) => `${quote(key)}: ${reprOf(item)}`);
  return `{${entries.join(', ')}}`;
}

/** `ascii(value)`: non-ASCII characters are escaped. */
export const asciiOf = (value: Json): string => reprOf(value).replace(/[^\0-\x7f]/gu, escape);

/** The range that orjson reads as `int`. Larger integers become floats. */
const SMALLEST_INT = -(2n ** 63n);
const LARGEST_INT = 2n ** 64n - 1n;

/** The integer, or null for a number that Python reads as a float. */
export function intOf({ text }: KeptJson): bigint | null {
  if (!/^-?\d+$/.test(text)) return null;
  const whole = BigInt(text);
  return whole >= SMALLEST_INT && whole <= LARGEST_INT ? whole : null;
}

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

/** The order in which Python sorts texts. */
export const byCodePoints = (a: string, b: string): number =>
  Buffer.compare(Buffer.from(a), Buffer.from(b));
