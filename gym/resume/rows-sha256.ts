import { createHash } from 'node:crypto';
import type { Json } from '../json/exact.js';
import { isNumber, isObject } from '../json/exact.js';
import { ATTEMPT_INDEX } from '../keys.js';
import type { GymRow } from '../row.js';
import { compareKeys } from '../row.js';

/**
 * Hash of the rows' content. The order of rows and keys, blanks, the notation of numbers and earlier attempts do not
 * count.
 */
export function rowsSha256(rows: readonly GymRow[]): string {
  const hash = createHash('sha256');
  for (const { row } of rows.toSorted((a, b) => compareKeys(a.key, b.key))) {
    const bare = Object.entries(row).filter(([key]) => key !== ATTEMPT_INDEX);
    hash.update(`${plainText(Object.fromEntries(bare))}\n`);
  }
  return hash.digest('hex');
}

/** One text for all notations of a value. */
function plainText(value: Json): string {
  if (isNumber(value)) {
    const { text } = value;
    return /^-?\d+$/.test(text) ? BigInt(text).toString() : String(Number(text));
  }
  if (Array.isArray(value)) return `[${value.map(plainText).join(',')}]`;
  if (!isObject(value)) return JSON.stringify(value);
  const keys = Object.keys(value).toSorted();
  return `{${keys.map((key) => `${JSON.stringify(key)}:${plainText(value[key] ?? null)}`).join(',')}}`;
}
