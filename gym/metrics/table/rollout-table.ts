import type { RowKey } from '../../row.js';
import { createNumbering, growingBytes, growingDoubles, growingIntegers } from './growing-array.js';
import type { Cell, RolloutCells } from './rollout-cells.js';

export const COUNTS = 1;
export const SHOWN = 2;
export const WHOLE = 4;
export const USAGE = 8;

const flagsOf = ({ counts, shown, whole, usage }: Cell): number =>
  (counts ? COUNTS : 0) | (shown ? SHOWN : 0) | (whole ? WHOLE : 0) | (usage ? USAGE : 0);

export type RolloutTable = ReturnType<typeof createRolloutTable>;

/**
 * The numbers of many results, about 13 bytes each. It only grows. A row is a run of cells, so rows with different keys
 * cost nothing extra, and each keeps the order of its own keys.
 */
export function createRolloutTable() {
  const tasks = growingDoubles();
  const rollouts = growingDoubles();
  const firstCells = growingDoubles();
  const columns = growingIntegers();
  const values = growingDoubles();
  const flags = growingBytes();
  const texts = new Map<number, string>();
  const names = createNumbering<string>();
  return {
    get size(): number {
      return tasks.length;
    },
    /** Names of columns, by number. */
    names: names.all,
    add: ({ key, cells }: RolloutCells): void => {
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
    },
    keyOf: (row: number): RowKey => ({ task: tasks.at(row), rollout: rollouts.at(row) }),
    taskOf: tasks.at,
    /** A row's cells end where the next row's begin; `size` as row gives the last row's end. */
    firstCell: (row: number): number =>
      row < firstCells.length ? firstCells.at(row) : columns.length,
    columnOf: columns.at,
    /** NaN: not a number. */
    valueOf: values.at,
    /** Some of the flags COUNTS, SHOWN, WHOLE and USAGE. */
    flagsOf: flags.at,
    /** Its JSON text if value and flags do not give it. */
    textOf: (cell: number): string | undefined => texts.get(cell),
  };
}
