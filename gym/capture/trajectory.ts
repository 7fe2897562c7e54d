import type { Json, JsonObject } from '../json/exact.js';
import { formatJson, isObject, jsonNumber, numberOf, objectsIn } from '../json/exact.js';
import { GAP, INVOCATION, RESPONSE_METADATA, shaped, TOOL_CALL, TRAJECTORY } from './shapes.js';
import { countOf } from './call-record.js';

/** The owner of the trajectory, by upstream's names of tasks and rollouts. */
export interface Identity {
  task_id: string;
  rollout_id: string;
}

/** The parts of a result about its own play. */
export interface Evidence {
  /** `ng_trajectory` of the agent, `ng_agent_observations`, `ng_model_call_capture`. */
  trajectory: Json | undefined;
  observations: Json | undefined;
  capture: JsonObject | null;
}

/**
 * `ng_trajectory` of a result: what the agent observed and what its model servers captured, with a gap for each missing
 * part.
 */
export function trajectoryRecord(identity: Identity, evidence: Evidence): JsonObject {
  const parts = ofAgent(identity, evidence.trajectory);
  addObservations(parts, evidence.observations);
  addCalls(parts, objectsIn(evidence.capture?.['calls']));
  for (const gap of objectsIn(evidence.capture?.['gaps']))
    parts.gaps.push(shaped(gap, GAP) ?? gapOf('model_call_capture_gap_invalid'));
  if (parts.model_calls.length === 0) parts.gaps.push(gapOf('model_calls_unavailable'));
  if (parts.turns.length === 0) parts.gaps.push(gapOf('turns_unavailable'));
  const isHeard = parts.invocations.some(({ conversation }) => (conversation as Json[]).length > 0);
  if (!isHeard) parts.gaps.push(gapOf('conversation_unavailable'));
  const gaps = new Map(parts.gaps.map((gap) => [formatJson(gap), gap]));
  return {
    schema_version: '1.0',
    task_id: identity.task_id,
    rollout_id: identity.rollout_id,
    invocations: parts.invocations,
    turns: parts.turns.toSorted(byTime),
    model_calls: parts.model_calls,
    tool_calls: parts.tool_calls,
    gaps: [...gaps.values()],
  };
}

interface Parts {
  invocations: JsonObject[];
  turns: JsonObject[];
  model_calls: JsonObject[];
  tool_calls: JsonObject[];
  gaps: JsonObject[];
}

const gapOf = (code: string, detail: string | null = null): JsonObject => ({
  code,
  invocation_id: null,
  detail,
});

const textIn = (value: Json | undefined): string => (typeof value === 'string' ? value : '');

function byTime(a: JsonObject, b: JsonObject): number {
  const at = (turn: JsonObject, field: string): number => numberOf(turn[field]) ?? 0;
  const [left, right] = [textIn(a['invocation_id']), textIn(b['invocation_id'])];
  const byInvocation = left < right ? -1 : left > right ? 1 : 0;
  return (
    at(a, 'timestamp') - at(b, 'timestamp') || byInvocation || at(a, 'turn_no') - at(b, 'turn_no')
  );
}

function ofAgent(identity: Identity, raw: Json | undefined): Parts {
  const none: Parts = { invocations: [], turns: [], model_calls: [], tool_calls: [], gaps: [] };
  if (!isObject(raw)) return none;
  const read = shaped(raw, TRAJECTORY);
  if (read === null)
    return { ...none, gaps: [gapOf('producer_trajectory_invalid', 'ValidationError')] };
  const { task_id, rollout_id } = identity;
  const others = Object.entries({ task_id, rollout_id }).filter(
    ([key, value]) => read[key] !== value,
  );
  const names = others.map(([name]) => name).join(',');
  const turns = objectsIn(read['turns']);
  return {
    invocations: objectsIn(read['invocations']),
    turns: names === '' ? turns : turns.map((turn) => ({ ...turn, task_id, rollout_id })),
    model_calls: objectsIn(read['model_calls']),
    tool_calls: objectsIn(read['tool_calls']),
    gaps: [
      ...(names === '' ? [] : [gapOf('producer_trajectory_identity_mismatch', names)]),
      ...objectsIn(read['gaps']),
    ],
  };
}

/** What a harness observed of its own calls. Its references to model calls are not joined with captured ones. */
function addObservations(parts: Parts, raw: Json | undefined): void {
  if (raw === undefined || raw === null) return;
  const records = isObject(raw) ? raw['records'] : undefined;
  if (!isObject(raw) || (records !== undefined && !Array.isArray(records))) {
    parts.gaps.push(gapOf('agent_observations_invalid', 'ValidationError'));
    return;
  }
  for (const gap of objectsIn(raw['gaps'])) parts.gaps.push(shaped(gap, GAP) ?? gap);
  const known = new Set(parts.invocations.map(({ invocation_id }) => invocation_id));
  for (const record of objectsIn(records)) {
    const invocation = record['kind'] === 'agent_invocation' ? shaped(record, INVOCATION) : null;
    if (invocation !== null && !known.has(invocation['invocation_id'] ?? null))
      parts.invocations.push(invocation);
  }
  const outputs = outputsOf(parts.invocations);
  const places = placesOf(parts.tool_calls, toolName);
  for (const record of objectsIn(records)) {
    const tool = record['kind'] === 'tool_call' ? shaped(record, TOOL_CALL) : null;
    if (tool !== null) addTool(parts, { tool, output: outputs.get(toolName(tool)), places });
  }
}

/** Where the first of each name is: an agent may name any number of calls. */
function placesOf<Name>(
  items: readonly JsonObject[],
  nameOf: (item: JsonObject) => Name,
): Map<Name, number> {
  const places = new Map<Name, number>();
  for (const [at, item] of items.entries())
    if (!places.has(nameOf(item))) places.set(nameOf(item), at);
  return places;
}

const toolName = ({ invocation_id, tool_call_id }: JsonObject): string =>
  `${textIn(invocation_id)} ${textIn(tool_call_id)}`;

function outputsOf(invocations: JsonObject[]): Map<string, Json> {
  const outputs = new Map<string, Json>();
  for (const { invocation_id, conversation } of invocations) {
    for (const { type, call_id, output } of objectsIn(conversation)) {
      if (type !== 'function_call_output') continue;
      outputs.set(`${textIn(invocation_id)} ${textIn(call_id)}`, output ?? null);
    }
  }
  return outputs;
}

function addTool(
  { tool_calls }: Parts,
  {
    tool,
    output,
    places,
  }: { tool: JsonObject; output: Json | undefined; places: Map<string, number> },
): void {
  const name = toolName(tool);
  const at = places.get(name) ?? tool_calls.length;
  places.set(name, at);
  const said = Object.entries(tool).filter(([, value]) => value !== null);
  const update = Object.fromEntries(said);
  const before = tool_calls[at];
  if (before !== undefined && tool['status'] === 'unknown') delete update['status'];
  tool_calls[at] = { ...(before ?? tool), ...update, ...(output !== undefined && { output }) };
}

/** Captured calls; one that the agent named itself is completed. */
function addCalls({ model_calls }: Parts, calls: JsonObject[]): void {
  const idOf = ({ model_call_id = null }: JsonObject): Json => model_call_id;
  const places = placesOf(model_calls, idOf);
  for (const call of calls) {
    const projected = projectedCall(call);
    const id = idOf(projected);
    const at = (id === null ? undefined : places.get(id)) ?? model_calls.length;
    places.set(id, at);
    const before = model_calls[at];
    model_calls[at] = before === undefined ? projected : completed(before, projected);
  }
}

const said = (value: JsonObject): JsonObject =>
  Object.fromEntries(Object.entries(value).filter(([, item]) => item !== null));

function completed(before: JsonObject, call: JsonObject): JsonObject {
  const nested = ['response_metadata', 'token_stats'].map((name) => {
    const [old, now] = [before[name], call[name]];
    return [name, { ...(isObject(old) ? old : {}), ...(isObject(now) ? said(now) : {}) }] as const;
  });
  return { ...before, ...said(call), ...Object.fromEntries(nested) };
}

/** What the call does not contain is null. */
function projectedCall(call: JsonObject): JsonObject {
  const count = (name: string): Json => {
    const value = countOf(call[name]);
    return value === null ? null : jsonNumber(value);
  };
  return {
    model_call_id: call['model_call_id'] ?? null,
    started_at: call['started_at'] ?? null,
    completed_at: call['completed_at'] ?? null,
    duration_ms: call['latency_total_ms'] ?? null,
    request: call['request'] ?? call['request_raw'] ?? null,
    response: call['response'] ?? call['response_raw'] ?? null,
    response_metadata: Object.fromEntries(
      RESPONSE_METADATA.map(({ name }) => [name, call[name] ?? null]),
    ),
    token_stats: {
      prompt_tokens: count('tokens_in'),
      completion_tokens: count('tokens_out'),
      reasoning_tokens: count('tokens_reasoning'),
      total_tokens: count('tokens_total'),
      cached_tokens: count('cached_tokens'),
    },
  };
}
