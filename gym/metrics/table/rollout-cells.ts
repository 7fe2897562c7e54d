import { numberIn } from '../../json/exact.js';
import { ROLLOUT_INDEX, TASK_INDEX } from '../../keys.js';
import type { RowKey } from '../../row.js';
import { membersOf, type Members } from '../../../src/platform/json/members.js';

/** The numbers of one result, as they are written into tables. */
export interface RolloutCells {
  key: RowKey;
  /** In the order of the result's keys, then of those of `response.usage`. */
  cells: Cell[];
}

/** A number of a result. Most count in both: the column of their name and the row's `rollout_infos`. */
export interface Cell {
  name: string;
  /** It comes from `response.usage`. */
  usage: boolean;
  /** NaN: not a number; only `info` shows it. */
  value: number;
  /** Python reads it as an int (booleans, too). */
  whole: boolean;
  /**
   * Its JSON text if `value` does not give it: a boolean reward, an integer beyond 2^53, a reward that is not a number.
   */
  text: string | null;
  /** It counts in its column's statistics. */
  counts: boolean;
  /** It is shown in `rollout_infos`. */
  shown: boolean;
}

/**
 * What upstream's profiler takes from a result: its numbers and booleans, and those of `response.usage`. If both have a
 * name, the column has the usage's value (none, if that is not a number) in the result's place; `rollout_infos` show
 * the result's, in the usage's place.
 */
export function cellsOf(members: Members, key: RowKey): RolloutCells {
  const usage = usageOf(members);
  const cells: Cell[] = [];
  const replaced = new Map<string, Cell>();
  for (const [name, text] of members) {
    if (name === TASK_INDEX || name === ROLLOUT_INDEX || name === 'response') continue;
    const own = cellOf(text, { name, usage: false });
    if (Number.isNaN(own.value)) {
      if (name === 'reward') cells.push({ ...own, counts: false });
      continue;
    }
    const other = usage?.get(name);
    if (other === undefined || name === 'reward') {
      cells.push(own);
      continue;
    }
    const instead = cellOf(other, { name, usage: true });
    if (Number.isNaN(instead.value)) {
      cells.push({ ...own, counts: false });
    } else {
      cells.push({ ...instead, usage: false, shown: false });
      replaced.set(name, { ...own, usage: true, counts: false });
    }
  }
  for (const [name, text] of usage ?? []) {
    const isReward = name === 'reward' && members.has(name);
    if (name === TASK_INDEX || name === ROLLOUT_INDEX || isReward) continue;
    const cell = replaced.get(name) ?? cellOf(text, { name, usage: true });
    if (!Number.isNaN(cell.value)) cells.push(cell);
  }
  return { key, cells };
}

/** `response.usage`; null: there is none. */
export function usageOf(members: Members): Members | null {
  const response = membersOf(members.get('response') ?? '');
  return response === null ? null : membersOf(response.get('usage') ?? '');
}

function cellOf(text: string, { name, usage }: Pick<Cell, 'name' | 'usage'>): Cell {
  const number = numberIn(text);
  const value = number ?? Number.NaN;
  const whole = number !== null && !/^-?\d.*[.eE]/.test(text);
  const isLarge = whole && !Number.isSafeInteger(value);
  const isOdd = name === 'reward' && !usage && !/^-?\d/.test(text);
  // A single object literal shape, because a million results have ten million of these.
  return {
    name,
    usage,
    value,
    whole,
    text: isLarge || isOdd ? text : null,
    counts: true,
    shown: true,
  };
}
