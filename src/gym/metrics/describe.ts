import { floatText } from './python-number.js';
import type { RolloutTable, StoredCell } from './rollout-table.js';
import { statisticsOf, type Statistics } from './statistics.js';

/** Some rows of a table, in this order. */
export type Rows = Uint32Array;

/** The columns of a data frame: a result's numbers, a usage field in place of a result's of its name. */
export interface Columns {
  /** Numbers of names, as first seen. */
  order: number[];
  /** Every row has an int in every column: only then pandas keeps max and min as ints. */
  whole: boolean;
}

/** Of all rows that are profiled together: a group has its columns from its siblings too. */
export function columnsOf(table: RolloutTable, rows: Rows): Columns {
  const counts = new Map<number, number>();
  const floats = new Set<number>();
  for (const row of rows) {
    forEachNumber(table.cellsOf(row), ({ column, whole }) => {
      counts.set(column, (counts.get(column) ?? 0) + 1);
      if (!whole) floats.add(column);
    });
  }
  const isFull = [...counts.values()].every((count) => count === rows.length);
  return { order: [...counts.keys()], whole: floats.size === 0 && isFull };
}

const STATISTICS = ['mean', 'max', 'min', 'median', 'std'] as const;

/** `mean/x`, `max/x`, … of some rows: a name and the JSON text of a number. What pandas would call NaN is left out. */
export function describe(
  { table, columns }: { table: RolloutTable; columns: Columns },
  rows: Rows,
): [name: string, text: string][] {
  const found = gather({ table, columns }, rows);
  // A spread of single values is more readable as 0: only where no column has one, and only where every row has the column.
  const isSingle = found.every(({ statistics }) => statistics.std === null);
  const entries: [string, string][] = [];
  for (const statistic of STATISTICS) {
    for (const { column, count, statistics } of found) {
      const isAlone = statistics.std === null && isSingle && count === rows.length;
      const value = statistic === 'std' && isAlone ? 0 : statistics[statistic];
      if (value === null) continue;
      const isInt = columns.whole && (statistic === 'max' || statistic === 'min');
      const name = `${statistic}/${table.names[column] ?? ''}`;
      entries.push([name, isInt ? String(value) : floatText(value)]);
    }
  }
  return entries;
}

interface Found {
  column: number;
  /** Rows that have it. */
  count: number;
  statistics: Statistics;
}

/** In the order of `columns`; of those that a row has. */
function gather(
  { table, columns }: { table: RolloutTable; columns: Columns },
  rows: Rows,
): Found[] {
  const counts = new Uint32Array(table.names.length);
  let total = 0;
  for (const row of rows) {
    forEachNumber(table.cellsOf(row), ({ column }) => {
      counts[column] = (counts[column] ?? 0) + 1;
      total += 1;
    });
  }
  const values = new Float64Array(total);
  const next = new Uint32Array(counts.length);
  let start = 0;
  for (const [column, count] of counts.entries()) {
    next[column] = start;
    start += count;
  }
  for (const row of rows) {
    forEachNumber(table.cellsOf(row), ({ column, value }) => {
      const place = next[column] ?? 0;
      values[place] = value;
      next[column] = place + 1;
    });
  }
  return columns.order.flatMap((column) => {
    const count = counts[column] ?? 0;
    const end = next[column] ?? 0;
    const own = values.subarray(end - count, end);
    return count === 0 ? [] : [{ column, count, statistics: statisticsOf(own) }];
  });
}

type NumberCell = StoredCell & { value: number };

/** The numbers of a row, each column once. */
function forEachNumber(cells: StoredCell[], visit: (cell: NumberCell) => void): void {
  for (const cell of cells) {
    const same = otherOf(cells, cell);
    if (cell.usage && same !== undefined && same.value !== null) continue;
    const shown = cell.usage ? cell : (same ?? cell);
    if (shown.value !== null) visit(shown as NumberCell);
  }
}

/** The cell of the same name on the other side, result or usage. */
export function otherOf(cells: StoredCell[], cell: StoredCell): StoredCell | undefined {
  return cells.find(({ column, usage }) => column === cell.column && usage !== cell.usage);
}
