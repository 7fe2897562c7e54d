import { KeptJson } from '../../src/platform/json/kept.js';
import type { Json, JsonObject } from '../json/exact.js';
import { isNumber, isObject, jsonNumber, numberOf } from '../json/exact.js';
import { floatJson } from '../../src/platform/python/numbers.js';
import { floatSum } from '../metrics/statistics/sums.js';
import type { Captured } from './capture-store.js';
import { saidIn } from './said.js';

/** The bodies of a call; a result keeps one copy of each. */
export const PAYLOADS = ['request', 'response', 'request_raw', 'response_raw'] as const;

const textOf = (value: Json | undefined): string | null =>
  typeof value === 'string' ? value : null;
const objectIn = (value: Json | undefined): JsonObject | null => (isObject(value) ? value : null);
const number = (value: number | null): Json => (value === null ? null : jsonNumber(value));

/** As upstream writes a float: whole ones with `.0`, one that JSON has no number for (`1e999`) as null. */
const float = (value: number | null): Json =>
  value === null || !Number.isFinite(value) ? null : new KeptJson(floatJson(value));

/** A field that upstream reads as a float. */
export const floatOf = (value: Json | undefined): Json => float(numberOf(value));

/** One captured exchange as upstream's `ModelCallRecord`, its fields in their order. */
export function callRecord({ call_index, exchange }: Captured['exchanges'][number]): JsonObject {
  const response = objectIn(exchange['response']) ?? {};
  const request = objectIn(exchange['request']);
  const tokens = tokensOf(objectIn(response['usage']) ?? {});
  const { tool_calls, reasoning_content } = saidIn(response);
  const { cached_tokens } = tokens;
  return {
    model_call_id: textOf(exchange['model_call_id']),
    response_id: textOf(response['id']),
    call_index: jsonNumber(call_index),
    model_ref: objectIn(exchange['model_ref']),
    model: textOf(response['model']) ?? textOf(request?.['model']),
    dialect: textOf(exchange['dialect']),
    status_code: exchange['status_code'] ?? null,
    response_status: textOf(response['status']),
    finish_reason: finishReason(response),
    started_at: floatOf(exchange['started_at']),
    completed_at: floatOf(exchange['completed_at']),
    tokens_in: number(tokens.tokens_in),
    tokens_out: number(tokens.tokens_out),
    tokens_reasoning: number(tokens.tokens_reasoning),
    tokens_total: number(tokens.tokens_total),
    request,
    response: objectIn(exchange['response']),
    request_raw: textOf(exchange['request_raw']),
    response_raw: textOf(exchange['response_raw']),
    tool_calls,
    reasoning_content,
    cache_hit: cached_tokens === null ? null : cached_tokens > 0,
    cached_tokens: number(cached_tokens),
    cache_creation_tokens: number(tokens.cache_creation_tokens),
    error_category: textOf(exchange['error_category']),
    latency_total_ms: floatOf(exchange['latency_ms']),
    latency_ttft_ms: floatOf(exchange['latency_ttft_ms']),
  };
}

function finishReason(response: JsonObject): string | null {
  const { choices, incomplete_details } = response;
  const first = Array.isArray(choices) ? choices[0] : undefined;
  const candidates = [
    response['stop_reason'],
    isObject(first) ? first['finish_reason'] : undefined,
    isObject(incomplete_details) ? incomplete_details['reason'] : undefined,
  ];
  return candidates.map(textOf).find((text) => text !== null) ?? null;
}

const COUNTS = ['tokens_in', 'tokens_out', 'tokens_reasoning', 'tokens_total', 'cached_tokens'];

/** Sums over calls; null if no call has a number. */
export function callMetrics(calls: readonly JsonObject[]): JsonObject {
  const sumOf = (name: string): number | null => {
    const values = calls.flatMap((call) => numberOf(call[name]) ?? []);
    return values.length === 0 ? null : floatSum(values);
  };
  return {
    ...Object.fromEntries(COUNTS.map((name) => [name, number(sumOf(name))])),
    latency_total_ms: float(sumOf('latency_total_ms')),
    num_calls: jsonNumber(calls.length),
  };
}

/** A count of tokens; null: negative, a fraction, a float, or no number. */
export function countOf(value: Json | undefined): number | null {
  const number = numberOf(value);
  const isCount = isNumber(value) && /^\d+$/.test(value.text) && Number.isSafeInteger(number);
  return isCount ? number : null;
}

const CACHED = ['cached_tokens', 'cached_input_tokens'];

const firstOf = (usage: Json | undefined, names: readonly string[]): number | null =>
  isObject(usage) ? (names.flatMap((name) => countOf(usage[name]) ?? [])[0] ?? null) : null;

/**
 * Tokens of one call, in any dialect; null: not reported. Anthropic's `input_tokens` exclude tokens read from or written
 * to the cache; the prompt is all of them.
 */
function tokensOf(usage: JsonObject) {
  const tokens_out = firstOf(usage, ['output_tokens', 'completion_tokens']);
  const cacheRead = countOf(usage['cache_read_input_tokens']);
  const cache_creation_tokens = countOf(usage['cache_creation_input_tokens']);
  const said = firstOf(usage, ['input_tokens', 'prompt_tokens']);
  const cache = (cacheRead ?? 0) + (cache_creation_tokens ?? 0);
  const tokens_in = said !== null || cache > 0 ? (said ?? 0) + cache : null;
  const sum = tokens_in !== null && tokens_out !== null ? tokens_in + tokens_out : null;
  const reasoning =
    firstOf(usage['output_tokens_details'], ['reasoning_tokens']) ??
    firstOf(usage['completion_tokens_details'], ['reasoning_tokens']);
  const cached =
    firstOf(usage['prompt_tokens_details'], CACHED) ??
    firstOf(usage['input_tokens_details'], CACHED);
  return {
    tokens_in,
    tokens_out,
    tokens_reasoning: reasoning ?? countOf(usage['reasoning_output_tokens']),
    tokens_total: countOf(usage['total_tokens']) ?? sum,
    cached_tokens: cached ?? cacheRead ?? countOf(usage['cached_input_tokens']),
    cache_creation_tokens,
  };
}
