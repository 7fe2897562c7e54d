import { floatJson } from '../../../src/platform/python/numbers.js';
import { COUNTS, WHOLE, type RolloutTable } from '../table/rollout-table.js';
import { pairwiseSum, type Column } from './sums.js';

/** Some rows of a table, in this order. */
export type Rows = Uint32Array;

/** The columns of a data frame: a result's numbers, with a usage field replacing a result's field of the same name. */
export interface Columns {
  /** As first seen. */
  order: number[];
  /** Every row has an int in every column; only then pandas keeps max and min as ints. */
  whole: boolean;
}

/** Calls back for each cell of these rows that counts in its column, with the place of its row among them. */
function eachCell(
  { table, rows }: { table: RolloutTable; rows: Rows },
  use: (cell: number, place: number) => void,
): void {
  for (let place = 0; place < rows.length; place++) {
    const row = rows[place] ?? 0;
    const end = table.firstCell(row + 1);
    for (let cell = table.firstCell(row); cell < end; cell++)
      if ((table.flagsOf(cell) & COUNTS) !== 0) use(cell, place);
  }
}

function countsOf(of: { table: RolloutTable; rows: Rows }): Map<number, number> {
  const counts = new Map<number, number>();
  eachCell(of, (cell) => {
    const column = of.table.columnOf(cell);
    counts.set(column, (counts.get(column) ?? 0) + 1);
  });
  return counts;
}

/** The columns of rows that are profiled together: each group has all of them. */
export function columnsOf(table: RolloutTable, rows: Rows): Columns {
  const counts = countsOf({ table, rows });
  let fractions = 0;
  eachCell({ table, rows }, (cell) => {
    if ((table.flagsOf(cell) & WHOLE) === 0) fractions += 1;
  });
  const isFull = [...counts.values()].every((count) => count === rows.length);
  return { order: [...counts.keys()], whole: fractions === 0 && isFull };
}

/** Members of an object: a name and the JSON text of its value. */
export type Entries = [name: string, text: string][];

const STATISTICS = ['mean', 'max', 'min', 'median', 'std'] as const;

/** `mean/x`, `max/x`, … of some rows; values that pandas would call NaN are left out. */
export function createDescriber(
  table: RolloutTable,
  { order, whole }: Columns,
): (rows: Rows) => Entries {
  const names = STATISTICS.map((statistic) =>
    order.map((column) => `${statistic}/${table.names[column] ?? ''}`),
  );
  return (rows) => {
    const columns = gather({ table, rows });
    const found = order.map((column) => {
      const own = columns.get(column);
      return own === undefined ? null : statisticsOf(own);
    });
    // A spread of single values is shown as 0 only if no column has one, and only if every row has the column.
    const isSingle = found.every((own) => (own?.std ?? null) === null);
    const described: Entries = [];
    for (const [index, statistic] of STATISTICS.entries()) {
      const isInt = whole && (statistic === 'max' || statistic === 'min');
      for (const [place, own] of found.entries()) {
        if (own === null) continue;
        const isAlone = statistic === 'std' && isSingle && own.count === rows.length;
        const value = isAlone ? 0 : own[statistic];
        if (value === null) continue;
        described.push([names[index]?.[place] ?? '', isInt ? String(value) : floatJson(value)]);
      }
    }
    return described;
  };
}

/** The numbers of some rows by column. */
function gather(of: { table: RolloutTable; rows: Rows }): Map<number, Column> {
  const { table, rows } = of;
  const columns = new Map<number, Column>();
  for (const [column, count] of countsOf(of)) {
    const [values, places] = [new Float64Array(count), new Uint32Array(count)];
    columns.set(column, { values, places, size: rows.length });
  }
  const filled = new Map<number, number>();
  eachCell(of, (cell, place) => {
    const column = table.columnOf(cell);
    const own = columns.get(column);
    const at = filled.get(column) ?? 0;
    filled.set(column, at + 1);
    if (own === undefined) return;
    own.values[at] = table.valueOf(cell);
    own.places[at] = place;
  });
  return columns;
}

/** What pandas' `describe`-like reductions make of a column, without missing values. */
interface Statistics {
  count: number;
  mean: number;
  max: number;
  min: number;
  median: number;
  /** With n - 1 in the denominator; null for a single value. */
  std: number | null;
}

/** Sorts the values in place. At least one value. */
function statisticsOf(column: Column): Statistics {
  const { values } = column;
  const count = values.length;
  const mean = pairwiseSum(column) / count;
  const std = count < 2 ? null : spreadOf(column, mean);
  values.sort();
  const at = (index: number): number => values[index] ?? Number.NaN;
  const middle = count >>> 1;
  return {
    count,
    mean,
    max: at(count - 1),
    min: at(0),
    median: count % 2 === 1 ? at(middle) : (at(middle - 1) + at(middle)) / 2,
    std,
  };
}

function spreadOf(column: Column, mean: number): number {
  const values = column.values.map((value) => (mean - value) * (mean - value));
  return Math.sqrt(pairwiseSum({ ...column, values }) / (values.length - 1));
}
