import { createHash } from 'node:crypto';
import { parseJson } from '../../json/exact.js';
import { strOf } from '../../python/repr.js';
import { createNumbering, growingIntegers } from './growing-array.js';

/** Length up to which a label is kept; of longer ones only equality matters. */
const KEPT = 200;

/** A field of each row that is compared, but never computed with: an answer, a difficulty. */
export interface Labels {
  /** Adds the next row's label: the JSON text of the field, or undefined. */
  add(text?: string): void;
  /** The label's number; null: the row has none. */
  of(row: number): number | null;
  /** As Python shows the first one. */
  nameOf(label: number): string;
  /** Python's `bool()` of it. */
  isTrue(label: number): boolean;
}

export function createLabels(): Labels {
  const rows = growingIntegers();
  const keys = createNumbering<string>();
  const names: string[] = [];
  return {
    add: (text = 'null') => {
      const key = keyOf(text);
      const label = text === 'null' ? null : keys.of(key);
      if (label === names.length) names.push(key.startsWith(HASHED) ? key : strOf(parseJson(text)));
      rows.push(label === null ? 0 : label + 1);
    },
    of: (row) => (rows.at(row) === 0 ? null : rows.at(row) - 1),
    nameOf: (label) => names[label] ?? '',
    isTrue: (label) => !FALSE.has(keys.all[label] ?? ''),
  };
}

const HASHED = '#';
const FALSE: ReadonlySet<string> = new Set(['0', '""', '[]', '{}']);

/** As Python compares: `"\u0041"` is `"A"`, `1.0` and `true` are 1, and no text is a number. */
function keyOf(text: string): string {
  const value: unknown = JSON.parse(text);
  const isNumber = typeof value === 'number' || typeof value === 'boolean';
  const key = JSON.stringify(isNumber ? Number(value) : value);
  return key.length <= KEPT ? key : `${HASHED}${createHash('sha256').update(key).digest('hex')}`;
}
