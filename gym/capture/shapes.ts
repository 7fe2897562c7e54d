import type { Json, JsonObject } from '../json/exact.js';
import { isObject } from '../json/exact.js';
import { floatOf } from './call-record.js';

/**
 * Upstream's models of what agents observe (`nemo_gym/rollout_observability.py` at 07d6b0d): their fields in order,
 * with defaults. Parsing fills in all of them.
 */
interface Field {
  name: string;
  fallback: Json | typeof REQUIRED;
  isFloat?: true;
  /** For a list: the shape of each item; null: any. */
  items?: Shape | null;
  /** For an object. */
  shape?: Shape;
}
export type Shape = readonly Field[];

const REQUIRED = Symbol('required');
const must = (name: string): Field => ({ name, fallback: REQUIRED });
const maybe = (name: string, fallback: Json = null): Field => ({ name, fallback });
const float = (name: string): Field => ({ name, fallback: null, isFloat: true });
const list = (name: string, items: Shape | null = null): Field => ({ name, fallback: [], items });

const CALL_REF: Shape = [maybe('model_call_id'), maybe('model_ref'), maybe('response_id')];
export const GAP: Shape = [must('code'), maybe('invocation_id'), maybe('detail')];
export const INVOCATION: Shape = [
  maybe('kind', 'agent_invocation'),
  must('invocation_id'),
  maybe('parent_invocation_id'),
  maybe('spawned_by_tool_call_id'),
  maybe('status', 'unknown'),
  float('duration_ms'),
  maybe('error_type'),
  list('model_calls', CALL_REF),
  list('conversation'),
];
export const TOOL_CALL: Shape = [
  maybe('kind', 'tool_call'),
  must('invocation_id'),
  must('tool_call_id'),
  maybe('sandbox_id'),
  maybe('tool_name'),
  float('started_at'),
  float('completed_at'),
  float('duration_ms'),
  maybe('timing_source'),
  maybe('status', 'unknown'),
  maybe('error_type'),
  maybe('output'),
];
const TURN: Shape = [
  must('invocation_id'),
  must('task_id'),
  must('rollout_id'),
  must('turn_no'),
  { name: 'timestamp', fallback: REQUIRED, isFloat: true },
  maybe('question'),
  maybe('answer'),
  maybe('reasoning_content'),
  maybe('resolved'),
  must('step_count'),
  list('model_calls', CALL_REF),
];
export const RESPONSE_METADATA: Shape = [
  ...[
    'response_id',
    'model_ref',
    'model',
    'dialect',
    'status_code',
    'response_status',
    'finish_reason',
    'error_category',
  ].map((name) => maybe(name)),
  float('latency_ttft_ms'),
];
const TOKEN_STATS: Shape = ['prompt', 'completion', 'reasoning', 'total', 'cached'].map((kind) =>
  maybe(`${kind}_tokens`),
);
const MODEL_CALL: Shape = [
  maybe('model_call_id'),
  float('started_at'),
  float('completed_at'),
  float('duration_ms'),
  maybe('request'),
  maybe('response'),
  { name: 'response_metadata', fallback: {}, shape: RESPONSE_METADATA },
  { name: 'token_stats', fallback: {}, shape: TOKEN_STATS },
];
export const TRAJECTORY: Shape = [
  maybe('schema_version', '1.0'),
  must('task_id'),
  must('rollout_id'),
  list('invocations', INVOCATION),
  list('turns', TURN),
  list('model_calls', MODEL_CALL),
  list('tool_calls', TOOL_CALL),
  list('gaps', GAP),
];

/** The value with all fields of its shape; null if it has others, or lacks one. */
export function shaped(value: Json, shape: Shape): JsonObject | null {
  if (!isObject(value)) return null;
  const names = shape.map(({ name }) => name);
  if (Object.keys(value).some((key) => !names.includes(key))) return null;
  const fields: [string, Json][] = [];
  for (const { name, fallback, isFloat, items, shape: inner } of shape) {
    const given = value[name];
    if (given === undefined && fallback === REQUIRED) return null;
    const field = given === undefined ? (fallback as Json) : isFloat ? floatOf(given) : given;
    const read = items !== undefined ? listOf(field, items) : inner ? shaped(field, inner) : field;
    if (read === null && (items !== undefined || inner !== undefined)) return null;
    fields.push([name, read]);
  }
  return Object.fromEntries(fields);
}

function listOf(value: Json, items: Shape | null): Json[] | null {
  if (!Array.isArray(value)) return null;
  if (items === null) return value;
  const read = value.map((item) => shaped(item, items));
  return read.every((item) => item !== null) ? read : null;
}
