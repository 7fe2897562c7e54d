import type { Json, JsonObject } from '../../src/platform/json/lossless.js';
import { isObject } from '../../src/platform/json/lossless.js';
import { AGENT_REF } from '../keys.js';
import type { GymRow } from '../row.js';

/**
 * Whether a failure with a row's key is this row's. An agent echoes parameters in its own form (a text becomes a message, defaults are filled in),
 * so only the agent's name and the first user message are compared, each where both have one.
 */
export function fitsRow(failure: JsonObject, { agent, row }: GymRow): boolean {
  const ref = failure[AGENT_REF];
  const name = isObject(ref) ? ref['name'] : undefined;
  if (typeof name === 'string' && name !== agent) return false;
  const failed = firstUserText(failure['responses_create_params']);
  const ours = firstUserText(row['responses_create_params']);
  return failed === null || ours === null || failed === ours;
}

/** Null: there is none, or not as text. */
function firstUserText(params: Json | undefined): string | null {
  const input = isObject(params) ? params['input'] : undefined;
  if (typeof input === 'string') return input;
  if (!Array.isArray(input)) return null;
  const first = input.find((item) => isObject(item) && item['role'] === 'user');
  const content = isObject(first) ? first['content'] : undefined;
  if (typeof content === 'string') return content;
  if (!Array.isArray(content)) return null;
  const texts = content.map((part) => (isObject(part) ? part['text'] : undefined));
  return texts.every((text) => typeof text === 'string') ? texts.join('') : null;
}
