import type { RowKey } from '../row.js';
import { growingBytes, growingDoubles, growingIntegers } from './growing-array.js';
import type { Cell, RolloutCells } from './rollout-cells.js';

/** A cell as it is read back. */
export interface StoredCell extends Omit<Cell, 'name'> {
  /** The number of its name, in `names`. */
  column: number;
}

/**
 * The numbers of many results, about 13 bytes each: a row is a run of cells, so that rows with other keys than their
 * neighbours' cost nothing, and each keeps the order of its own keys.
 */
export interface RolloutTable {
  readonly size: number;
  readonly names: readonly string[];
  /** Returns the row's number. */
  add(row: RolloutCells): number;
  keyOf(row: number): RowKey;
  cellsOf(row: number): StoredCell[];
}

/** Kinds of stored cells: the value of a TEXT is the place of its text. */
const REAL = 0;
const WHOLE = 1;
const TEXT = 2;
const USAGE = 4;

interface KeptText {
  text: string;
  value: number | null;
  whole: boolean;
}

/** Empty; it only grows. */
export function createRolloutTable(): RolloutTable {
  const tasks = growingDoubles();
  const rollouts = growingDoubles();
  const firstCells = growingDoubles();
  const columns = growingIntegers();
  const values = growingDoubles();
  const kinds = growingBytes();
  const names: string[] = [];
  const columnOf = new Map<string, number>();
  const texts: KeptText[] = [];
  const placeOf = new Map<string, number>();

  const column = (name: string): number => {
    const known = columnOf.get(name);
    if (known !== undefined) return known;
    columnOf.set(name, names.length);
    return names.push(name) - 1;
  };
  const place = ({ text, value, whole }: KeptText): number => {
    const known = placeOf.get(text);
    if (known !== undefined) return known;
    placeOf.set(text, texts.length);
    return texts.push({ text, value, whole }) - 1;
  };
  const add = ({ key, cells }: RolloutCells): number => {
    tasks.push(key.task);
    rollouts.push(key.rollout);
    firstCells.push(columns.length);
    for (const { name, usage, value, whole, text } of cells) {
      columns.push(column(name));
      const isText = text !== null || value === null;
      kinds.push((isText ? TEXT : whole ? WHOLE : REAL) | (usage ? USAGE : 0));
      values.push(isText ? place({ text: text ?? 'null', value, whole }) : value);
    }
    return tasks.length - 1;
  };
  const stored = (cell: number): StoredCell => {
    const kind = kinds.at(cell);
    const value = values.at(cell);
    const own = { column: columns.at(cell), usage: (kind & USAGE) !== 0 };
    const kept = (kind & TEXT) === 0 ? undefined : texts[value];
    return kept === undefined
      ? { ...own, value, whole: (kind & WHOLE) !== 0, text: null }
      : { ...own, ...kept };
  };

  return {
    get size() {
      return tasks.length;
    },
    names,
    add,
    keyOf: (row) => ({ task: tasks.at(row), rollout: rollouts.at(row) }),
    cellsOf: (row) => {
      const end = row + 1 < firstCells.length ? firstCells.at(row + 1) : columns.length;
      const cells: StoredCell[] = [];
      for (let cell = firstCells.at(row); cell < end; cell++) cells.push(stored(cell));
      return cells;
    },
  };
}
