import type { Json, JsonObject } from '../json/exact.js';
import { isNumber, isObject } from '../json/exact.js';

type Check = (value: Json) => boolean;

const text: Check = (value) => typeof value === 'string';
const flag: Check = (value) => typeof value === 'boolean';
const number: Check = isNumber;
const int: Check = (value) => isNumber(value) && Number.isInteger(Number(value.text));
const object: Check = isObject;
const list: Check = Array.isArray;
const oneOf =
  (...texts: string[]): Check =>
  (value) =>
    typeof value === 'string' && texts.includes(value);

/** Fields that may be null. */
const OPTIONAL: Record<string, Check> = {
  background: flag,
  include: list,
  instructions: text,
  max_output_tokens: int,
  max_tool_calls: int,
  metadata: object,
  model: text,
  previous_response_id: text,
  prompt: object,
  reasoning: object,
  service_tier: oneOf('auto', 'default', 'flex', 'scale', 'priority'),
  store: flag,
  temperature: number,
  text: object,
  top_logprobs: int,
  top_p: number,
  truncation: oneOf('auto', 'disabled'),
  user: text,
  stream: (value) => value === false,
};

const REQUIRED_TYPES: Record<string, Check> = {
  input: (value) => text(value) || list(value),
  parallel_tool_calls: flag,
  tool_choice: (value) => text(value) || object(value),
  tools: list,
};

/**
 * Whether a value has the fields of NeMo Gym's `NeMoGymResponseCreateParamsNonStreaming` (07d6b0d), each of its kind,
 * and no others. What is inside of items, tools and settings is not looked at.
 */
export function isCreateParams(value: Json | undefined): value is JsonObject {
  if (!isObject(value) || value['input'] === undefined) return false;
  return Object.entries(value).every(([name, field]) => {
    const optional = Object.hasOwn(OPTIONAL, name) ? OPTIONAL[name] : undefined;
    if (optional !== undefined) return field === null || optional(field);
    return Object.hasOwn(REQUIRED_TYPES, name) && REQUIRED_TYPES[name]?.(field) === true;
  });
}
