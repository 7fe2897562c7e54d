import type { Json, JsonObject } from '../json/exact.js';
import { isNumber, isObject, numberOf } from '../json/exact.js';

/** Token counts of one call, in any dialect; null: not reported. */
export interface CallTokens {
  tokens_in: number | null;
  tokens_out: number | null;
  tokens_reasoning: number | null;
  tokens_total: number | null;
  cached_tokens: number | null;
  cache_creation_tokens: number | null;
}

const NONE: CallTokens = {
  tokens_in: null,
  tokens_out: null,
  tokens_reasoning: null,
  tokens_total: null,
  cached_tokens: null,
  cache_creation_tokens: null,
};

/** An invalid count: negative, a fraction, a float. */
export function countOf(value: Json | undefined): number | null {
  const number = numberOf(value);
  const isCount = number !== null && Number.isSafeInteger(number) && number >= 0;
  return isCount && isNumber(value) && /^\d+$/.test(value.text) ? number : null;
}

const firstOf = (usage: JsonObject, names: readonly string[]): number | null =>
  names.map((name) => countOf(usage[name])).find((count) => count !== null) ?? null;

function detailOf(
  usage: JsonObject,
  { groups, names }: Record<'groups' | 'names', readonly string[]>,
) {
  const found = groups.map((group) => {
    const details = usage[group];
    return isObject(details) ? firstOf(details, names) : null;
  });
  return found.find((count) => count !== null) ?? null;
}

/** Anthropic's `input_tokens` exclude tokens read from or written to the cache; the prompt is all of them. */
export function tokensOfUsage(usage: Json | undefined): CallTokens {
  if (!isObject(usage)) return NONE;
  const tokens_out = firstOf(usage, ['output_tokens', 'completion_tokens']);
  const cacheRead = countOf(usage['cache_read_input_tokens']);
  const cache_creation_tokens = countOf(usage['cache_creation_input_tokens']);
  const said = firstOf(usage, ['input_tokens', 'prompt_tokens']);
  const cache = (cacheRead ?? 0) + (cache_creation_tokens ?? 0);
  const tokens_in = said !== null || cache > 0 ? (said ?? 0) + cache : null;
  const sum = tokens_in !== null && tokens_out !== null ? tokens_in + tokens_out : null;
  return {
    tokens_in,
    tokens_out,
    tokens_reasoning:
      detailOf(usage, {
        groups: ['output_tokens_details', 'completion_tokens_details'],
        names: ['reasoning_tokens'],
      }) ?? countOf(usage['reasoning_output_tokens']),
    tokens_total: countOf(usage['total_tokens']) ?? sum,
    cached_tokens:
      detailOf(usage, {
        groups: ['prompt_tokens_details', 'input_tokens_details'],
        names: ['cached_tokens', 'cached_input_tokens'],
      }) ??
      cacheRead ??
      countOf(usage['cached_input_tokens']),
    cache_creation_tokens,
  };
}
