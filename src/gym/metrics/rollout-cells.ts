import { AGENT_REF, ROLLOUT_INDEX, TASK_INDEX } from '../keys.js';
import type { RowKey } from '../row.js';
import { membersOf, type Members } from './json-members.js';

/** The numbers of one result, as they are written into tables. */
export interface RolloutCells {
  key: RowKey;
  /** In the order of the result's keys, those of `response.usage` last. */
  cells: Cell[];
}

export interface Cell {
  name: string;
  /** It stands in `response.usage`. */
  usage: boolean;
  /** null: no number, but it must be known: a reward that is none, or a usage field that hides a result's. */
  value: number | null;
  /** Python reads it as an int (booleans are). */
  whole: boolean;
  /** Its JSON text where `value` does not give it: a boolean reward, an integer beyond 2^53, anything that is no number. */
  text: string | null;
}

/** What upstream's profiler takes of a result: its numbers and booleans, and those of `response.usage`. */
export function cellsOf(members: Members, key: RowKey): RolloutCells {
  const cells: Cell[] = [];
  const numbers = new Set<string>();
  for (const [name, text] of members) {
    if (name === TASK_INDEX || name === ROLLOUT_INDEX || name === 'response') continue;
    const cell = cellOf(text, { name, usage: false });
    if (cell.value === null && name !== 'reward') continue;
    cells.push(cell);
    if (cell.value !== null) numbers.add(name);
  }
  for (const [name, text] of usageOf(members) ?? []) {
    if (name === TASK_INDEX || name === ROLLOUT_INDEX) continue;
    const cell = cellOf(text, { name, usage: true });
    if (cell.value !== null || numbers.has(name)) cells.push(cell);
  }
  return { key, cells };
}

/** `response.usage`; null: there is none. */
export function usageOf(members: Members): Members | null {
  const response = membersOf(members.get('response') ?? '');
  return response === null ? null : membersOf(response.get('usage') ?? '');
}

function cellOf(text: string, { name, usage }: Pick<Cell, 'name' | 'usage'>): Cell {
  if (text === 'true' || text === 'false') {
    const isReward = name === 'reward' && !usage;
    const value = text === 'true' ? 1 : 0;
    return { name, usage, value, whole: true, text: isReward ? text : null };
  }
  if (!isNumber(text)) return { name, usage, value: null, whole: false, text };
  const value = Number(text);
  const whole = !/[.eE]/.test(text);
  return { name, usage, value, whole, text: whole && !Number.isSafeInteger(value) ? text : null };
}

const isNumber = (text: string): boolean => {
  const first = text.charCodeAt(0);
  return first === 0x2d || (first >= 0x30 && first <= 0x39);
};

/** Its two index keys; null where it lacks one, or has another thing there than an integer that a double holds. */
export function rowKeyOf(members: Members): RowKey | null {
  const task = indexOf(members.get(TASK_INDEX));
  const rollout = indexOf(members.get(ROLLOUT_INDEX));
  return task === null || rollout === null ? null : { task, rollout };
}

function indexOf(text: string | undefined): number | null {
  if (text === undefined || !/^-?\d+$/.test(text)) return null;
  const value = Number(text);
  return Number.isSafeInteger(value) ? value : null;
}

/** `agent_ref.name`; null where it has none. */
export function agentOf(members: Members): string | null {
  const name: unknown = JSON.parse(membersOf(members.get(AGENT_REF) ?? '')?.get('name') ?? 'null');
  return typeof name === 'string' && name !== '' ? name : null;
}
