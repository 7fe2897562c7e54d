import { isNumber } from '../json/exact.js';
import type { Json } from '../json/exact.js';

/** For deep comparison: integers by all their digits, floats by value and as floats (`1.0` is no `1`), keys in any order. */
export function comparable(value: Json): unknown {
  if (isNumber(value)) {
    const { text } = value;
    return /^-?\d+$/.test(text) ? BigInt(text) : { float: Number(text) };
  }
  if (Array.isArray(value)) return value.map(comparable);
  if (typeof value !== 'object' || value === null) return value;
  return Object.fromEntries(Object.entries(value).map(([key, item]) => [key, comparable(item)]));
}
