import type { JsonObject } from './json/exact.js';
import { numberOf } from './json/exact.js';
import { ROLLOUT_INDEX, TASK_INDEX } from './keys.js';

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

/** The key of a row, a result or a failure; null: it has none. */
export function rowKeyOf(value: JsonObject): RowKey | null {
  const task = numberOf(value[TASK_INDEX]);
  const rollout = numberOf(value[ROLLOUT_INDEX]);
  if (task === null || rollout === null) return null;
  return Number.isSafeInteger(task) && Number.isSafeInteger(rollout) ? { task, rollout } : null;
}

/** Upstream's correlation id without its attempt, by which messages name a row. */
export const rolloutName = ({ task, rollout }: RowKey): string => `${task}-${rollout}`;

export const byKey = (a: { key: RowKey }, b: { key: RowKey }): number =>
  a.key.task - b.key.task || a.key.rollout - b.key.rollout;
