import { isObject, parseJson } from '../json/exact.js';
import type { JsonObject } from '../json/exact.js';
import type { GymRow } from '../row.js';

/** A row as it is materialised; `with` are fields beside its keys, as JSON. */
export function gymRow(
  key: { task: number; rollout: number },
  { agent = 'simple_agent', attempt = 0, fields = '{}' } = {},
): GymRow {
  const row = parseJson(
    JSON.stringify({
      responses_create_params: { input: `question ${key.task}` },
      agent_ref: { name: agent },
      _ng_task_index: key.task,
      _ng_rollout_index: key.rollout,
    }),
  );
  return { key, agent, attempt_index: attempt, row: { ...objectOf(row), ...jsonObject(fields) } };
}

export const jsonObject = (text: string): JsonObject => objectOf(parseJson(text));

function objectOf(value: ReturnType<typeof parseJson>): JsonObject {
  if (!isObject(value)) throw new Error('expected an object');
  return value;
}
