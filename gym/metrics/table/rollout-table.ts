import type { RowKey } from '../../row.js';
import { createNumbering, growingBytes, growingDoubles, growingIntegers } from './growing-array.js';
import type { Cell, RolloutCells } from './rollout-cells.js';

/**
 * The numbers of many results, about 13 bytes each. A row is a run of cells, so rows with different keys cost nothing
 * extra, and each keeps the order of its own keys.
 */
export interface RolloutTable {
  readonly size: number;
  /** Names of columns, by number. */
  readonly names: readonly string[];
  /** Returns the row's number. */
  add(row: RolloutCells): number;
  keyOf(row: number): RowKey;
  taskOf(row: number): number;
  /** A row's cells end where the next row's begin; `size` as row gives the last row's end. */
  firstCell(row: number): number;
  columnOf(cell: number): number;
  /** NaN: not a number. */
  valueOf(cell: number): number;
  /** Some of the flags COUNTS, SHOWN, WHOLE and USAGE. */
  flagsOf(cell: number): number;
  /** Its JSON text if value and flags do not give it. */
  textOf(cell: number): string | undefined;
}

export const COUNTS = 1;
export const SHOWN = 2;
export const WHOLE = 4;
export const USAGE = 8;

const flagsOf = ({ counts, shown, whole, usage }: Cell): number =>
  (counts ? COUNTS : 0) | (shown ? SHOWN : 0) | (whole ? WHOLE : 0) | (usage ? USAGE : 0);

/** Empty; it only grows. */
export function createRolloutTable(): RolloutTable {
  const tasks = growingDoubles();
  const rollouts = growingDoubles();
  const firstCells = growingDoubles();
  const columns = growingIntegers();
  const values = growingDoubles();
  const flags = growingBytes();
  const texts = new Map<number, string>();
  const names = createNumbering<string>();
  return {
    get size() {
      return tasks.length;
    },
    names: names.all,
    add: ({ key, cells }) => {
      tasks.push(key.task);
      rollouts.push(key.rollout);
      firstCells.push(columns.length);
      for (const cell of cells) {
        // A copy: a substring would keep the whole line.
        if (cell.text !== null) texts.set(columns.length, Buffer.from(cell.text).toString());
        columns.push(names.of(cell.name));
        values.push(cell.value);
        flags.push(flagsOf(cell));
      }
      return tasks.length - 1;
    },
    keyOf: (row) => ({ task: tasks.at(row), rollout: rollouts.at(row) }),
    taskOf: (row) => tasks.at(row),
    firstCell: (row) => (row < firstCells.length ? firstCells.at(row) : columns.length),
    columnOf: (cell) => columns.at(cell),
    valueOf: (cell) => values.at(cell),
    flagsOf: (cell) => flags.at(cell),
    textOf: (cell) => texts.get(cell),
  };
}
