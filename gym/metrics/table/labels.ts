import { createHash } from 'node:crypto';
import { growingIntegers } from './growing-array.js';

/** Length up to which a label is kept; of longer ones only equality matters. */
const KEPT = 200;

/** A field of each row that is compared, but never computed with: an answer, a difficulty. */
export interface Labels {
  /** Adds the next row's label: the JSON text of the field, or undefined. */
  add(text: string | undefined): void;
  /** The label's number; null: the row has none. */
  of(row: number): number | null;
  nameOf(label: number): string;
}

export function createLabels(): Labels {
  const rows = growingIntegers();
  const names: string[] = [];
  const numberOf = new Map<string, number>();
  const numbered = (name: string): number => {
    const known = numberOf.get(name);
    if (known !== undefined) return known;
    numberOf.set(name, names.length);
    return names.push(name) - 1;
  };
  return {
    add: (text) => {
      const key = text === undefined || text === 'null' ? null : keyOf(text);
      rows.push(key === null ? 0 : numbered(key) + 1);
    },
    of: (row) => (rows.at(row) === 0 ? null : rows.at(row) - 1),
    nameOf: (label) => nameIn(names[label] ?? ''),
  };
}

/** As Python compares: `"\u0041"` is `"A"`, `1.0` and `true` are 1, and no text is a number. */
function keyOf(text: string): string {
  const value: unknown = JSON.parse(text);
  const isNumber = typeof value === 'number' || typeof value === 'boolean';
  const key = JSON.stringify(isNumber ? Number(value) : value);
  return key.length <= KEPT ? key : `#${createHash('sha256').update(key).digest('hex')}`;
}

const nameIn = (key: string): string => (key.startsWith('"') ? (JSON.parse(key) as string) : key);
