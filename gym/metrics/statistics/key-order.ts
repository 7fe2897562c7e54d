import { compareKeys, type RowKey } from '../../row.js';
import type { Rows } from './describe.js';

/** Keys by number: a table, or an index of lines. */
export interface Keyed {
  readonly size: number;
  keyOf(row: number): RowKey;
}

/** Rows in the order of their keys; rows with equal keys keep their order. */
export function sortedRows(keyed: Keyed): Rows {
  const rows = new Uint32Array(keyed.size).map((_, row) => row);
  if (isSorted(keyed)) return rows;
  return rows.sort((a, b) => compareKeys(keyed.keyOf(a), keyed.keyOf(b)) || a - b);
}

function isSorted(keyed: Keyed): boolean {
  for (let row = 1; row < keyed.size; row++) {
    if (compareKeys(keyed.keyOf(row - 1), keyed.keyOf(row)) > 0) return false;
  }
  return true;
}

/** Rows whose key an earlier row has, with that row; `rows` are sorted. */
export function duplicatesIn(keyed: Keyed, rows: Rows): { first: number; again: number }[] {
  const duplicates: { first: number; again: number }[] = [];
  let first = rows[0] ?? 0;
  for (const row of rows.subarray(1)) {
    if (compareKeys(keyed.keyOf(first), keyed.keyOf(row)) === 0)
      duplicates.push({ first, again: row });
    else first = row;
  }
  return duplicates;
}
