import { whyNoJson } from '../src/platform/json/fault-place.js';
import { membersOf, type Members } from '../src/platform/json/members.js';
import { numberIn, valueIn, type JsonObject } from './json/exact.js';
import { AGENT_REF, FAILURE_CLASS, NO_PERSIST, ROLLOUT_INDEX, TASK_INDEX } from './keys.js';
import { isTruthy } from './python/repr.js';

/** A row of the materialised inputs: the body of an agent server's `/run`. */
export interface GymRow {
  key: RowKey;
  /** `agent_ref.name`. */
  agent: string;
  /** How often it failed before: `_ng_attempt_index`, or 0. */
  attempt_index: number;
  /** The whole row, index keys included, in the order of its keys. */
  row: JsonObject;
}

/** `_ng_task_index` and `_ng_rollout_index`. */
export interface RowKey {
  task: number;
  rollout: number;
}

export const BLANK = 'a blank line';

/**
 * A line that holds a row, a result or a failure: each value as its JSON text, which is checked and never parsed, since
 * it may be large and deep. A text says why the line holds none.
 */
export function lineMembers(line: string): Members | string {
  if (line.trim() === '') return BLANK;
  try {
    JSON.parse(line);
  } catch (error) {
    return `torn, or no JSON (${whyNoJson(line, error)})`;
  }
  return membersOf(line) ?? 'no JSON object';
}

/** Whose it is; null: it has no two integers that a double holds. */
export function rowKeyOf(members: Members): RowKey | null {
  const task = numberIn(members.get(TASK_INDEX));
  const rollout = numberIn(members.get(ROLLOUT_INDEX));
  if (task === null || rollout === null) return null;
  return Number.isSafeInteger(task) && Number.isSafeInteger(rollout) ? { task, rollout } : null;
}

/** `agent_ref.name`; null if it has none. */
export function agentOf(members: Members): string | null {
  const name: unknown = JSON.parse(membersOf(members.get(AGENT_REF) ?? '')?.get('name') ?? 'null');
  return typeof name === 'string' && name !== '' ? name : null;
}

/** In which file a result belongs. `nowhere`: the agent asked for it; a resume plays the row again. */
export function placeOf(result: Members): 'main' | 'failures' | 'nowhere' {
  if (isTruthy(valueIn(result, NO_PERSIST))) return 'nowhere';
  return (result.get(FAILURE_CLASS) ?? 'null') === 'null' ? 'main' : 'failures';
}

/** Upstream's correlation id without its attempt, by which messages name a row. */
export const rolloutName = ({ task, rollout }: RowKey): string => `${task}-${rollout}`;

export const compareKeys = (a: RowKey, b: RowKey): number =>
  a.task - b.task || a.rollout - b.rollout;
