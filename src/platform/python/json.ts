import { isLosslessNumber } from 'lossless-json';
import type { Json } from '../json/lossless.js';
import { entriesOf } from '../json/order.js';
import { floatText } from './numbers.js';

/**
 * `json.dumps(json.loads(text))`: separators `, ` and `: `, non-ASCII characters escaped, integers of any size kept.
 */
export function dumpJson(value: Json): string {
  if (isLosslessNumber(value)) {
    const text = value.value;
    return /^-?\d+$/.test(text) ? BigInt(text).toString() : floatText(Number(text));
  }
  if (typeof value === 'string') return asciiString(value);
  if (value === null || typeof value === 'boolean') return String(value);
  if (Array.isArray(value)) return `[${value.map(dumpJson).join(', ')}]`;
  const entries = entriesOf(value).map(([key, item]) => `${asciiString(key)}: ${dumpJson(item)}`);
  return `{${entries.join(', ')}}`;
}

const asciiString = (text: string): string =>
  JSON.stringify(text).replace(
    /[\x7f-\uffff]/g,
    (unit) => `\\u${unit.charCodeAt(0).toString(16).padStart(4, '0')}`,
  );
