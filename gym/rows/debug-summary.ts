import type { JsonObject } from '../../src/platform/json/lossless.js';
import { isObject } from '../../src/platform/json/lossless.js';
import { AGENT_REF, ROLLOUT_INDEX, TASK_INDEX } from '../keys.js';

/** What a message about a `/run` request shows of its row: never the row itself. */
export function debugSummary(row: JsonObject): JsonObject {
  const ref = row[AGENT_REF];
  const shown = {
    [TASK_INDEX]: row[TASK_INDEX],
    [ROLLOUT_INDEX]: row[ROLLOUT_INDEX],
    agent_name: isObject(ref) ? ref['name'] : null,
  };
  const entries = Object.entries(shown).flatMap(([key, value]) =>
    value === undefined || value === null ? [] : [[key, value] as const],
  );
  return Object.fromEntries(entries);
}
