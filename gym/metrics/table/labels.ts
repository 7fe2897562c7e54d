import { createHash } from 'node:crypto';
import { parseJson } from '../../json/exact.js';
import { strOf } from '../../python/repr.js';
import { createNumbering, growingIntegers } from './growing-array.js';

/** Length up to which a label is kept; of longer ones only equality matters. */
const KEPT = 200;

export type Labels = ReturnType<typeof createLabels>;

/** A field of each row that is compared, but never computed with: an answer, a difficulty. */
export function createLabels() {
  const rows = growingIntegers();
  const keys = createNumbering<string>();
  const names: string[] = [];
  return {
    /** Adds the next row's label: the JSON text of the field, if it has one. */
    add: (text = 'null'): void => {
      const key = keyOf(text);
      const label = text === 'null' ? null : keys.of(key);
      if (label === names.length) names.push(key.startsWith(HASHED) ? key : strOf(parseJson(text)));
      rows.push(label === null ? 0 : label + 1);
    },
    /** The label's number; null: the row has none. */
    of: (row: number): number | null => (rows.at(row) === 0 ? null : rows.at(row) - 1),
    /** As Python shows the first one. */
    nameOf: (label: number): string => names[label] ?? '',
    /** Python's `bool()` of it. */
    isTrue: (label: number): boolean => !FALSE.has(keys.all[label] ?? ''),
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
