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

/** The columns of rows that are profiled together: each group has all of them. */
export function columnsOf(table: RolloutTable, rows: Rows): Columns {
  const counts = new Map<number, number>();
  const floats = new Set<number>();
  for (const row of rows) {
    const end = table.firstCell(row + 1);
    for (let cell = table.firstCell(row); cell < end; cell++) {
      const flags = table.flagsOf(cell);
      if ((flags & COUNTS) === 0) continue;
      const column = table.columnOf(cell);
      counts.set(column, (counts.get(column) ?? 0) + 1);
      if ((flags & WHOLE) === 0) floats.add(column);
    }
  }
  const isFull = [...counts.values()].every((count) => count === rows.length);
  return { order: [...counts.keys()], whole: floats.size === 0 && isFull };
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
  const gather = createGatherer(table);
  return (rows) => {
    const columns = gather(rows);
    const found = order.map((column) => columns(column));
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

/** Statistics of a column of the gathered rows; null: none of them has it. */
type Gathered = (column: number) => Statistics | null;

/** Gathers rows by columns, in arrays that are reused. */
function createGatherer(table: RolloutTable): (rows: Rows) => Gathered {
  let counts = new Uint32Array(0);
  let ends = new Uint32Array(0);
  let values = new Float64Array(0);
  let places = new Uint32Array(0);
  const count = (rows: Rows): number => {
    let total = 0;
    for (const row of rows) {
      const end = table.firstCell(row + 1);
      for (let cell = table.firstCell(row); cell < end; cell++) {
        if ((table.flagsOf(cell) & COUNTS) === 0) continue;
        const column = table.columnOf(cell);
        counts[column] = (counts[column] ?? 0) + 1;
        total += 1;
      }
    }
    return total;
  };
  const place = (rows: Rows): void => {
    let index = -1;
    for (const row of rows) {
      index += 1;
      const end = table.firstCell(row + 1);
      for (let cell = table.firstCell(row); cell < end; cell++) {
        if ((table.flagsOf(cell) & COUNTS) === 0) continue;
        const column = table.columnOf(cell);
        const at = ends[column] ?? 0;
        values[at] = table.valueOf(cell);
        places[at] = index;
        ends[column] = at + 1;
      }
    }
  };
  return (rows) => {
    if (counts.length < table.names.length) {
      counts = new Uint32Array(table.names.length);
      ends = new Uint32Array(table.names.length);
    }
    counts.fill(0);
    const total = count(rows);
    if (values.length < total) {
      values = new Float64Array(total);
      places = new Uint32Array(total);
    }
    let start = 0;
    for (let column = 0; column < counts.length; column++) {
      ends[column] = start;
      start += counts[column] ?? 0;
    }
    place(rows);
    return (column) => {
      const end = ends[column] ?? 0;
      const own = counts[column] ?? 0;
      if (own === 0) return null;
      const [from, size] = [end - own, rows.length];
      return statisticsOf({
        values: values.subarray(from, end),
        places: places.subarray(from, end),
        size,
      });
    };
  };
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

let squares = new Float64Array(0);

function spreadOf({ values, ...column }: Column, mean: number): number {
  const count = values.length;
  if (squares.length < count) squares = new Float64Array(count);
  for (let index = 0; index < count; index++) {
    const distance = mean - (values[index] ?? 0);
    squares[index] = distance * distance;
  }
  const own = { ...column, values: squares.subarray(0, count) };
  return Math.sqrt(pairwiseSum(own) / (count - 1));
}
