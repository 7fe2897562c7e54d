import { isNumber, type Json } from '../json/exact.js';
import { entriesOf } from '../../src/platform/json/order.js';
import { floatText } from '../../src/platform/python/numbers.js';

/**
 * `json.dumps(json.loads(text))`: separators `, ` and `: `, non-ASCII characters escaped, integers of any size kept.
 */
export function dumpJson(value: Json): string {
  if (isNumber(value)) {
    const { text } = value;
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
