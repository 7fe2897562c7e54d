import type { GenerationSettings } from './generation-settings.js';

/** `processed`: of what is sampled. `raw`: before temperature, filters and penalties. `unknown`: it does not show. */
export const LOGPROBS_MODES = ['processed', 'raw', 'unknown'] as const;
export type LogprobsMode = (typeof LOGPROBS_MODES)[number];

type Reshaping = Pick<
  GenerationSettings,
  | 'greedy'
  | 'temperature'
  | 'top_p'
  | 'top_k'
  | 'min_p'
  | 'min_tokens'
  | 'repetition_penalty'
  | 'presence_penalty'
  | 'frequency_penalty'
  | 'bad_words'
>;

/** Engines report greedy decoding at temperature 1 and unfiltered in either mode, so only penalties count then. */
function reshapedBy(generation: Reshaping): string[] {
  const isGreedy = generation.greedy || generation.temperature === 0;
  const changes: [field: string, isChanged: boolean][] = [
    ['temperature', !isGreedy && generation.temperature !== 1],
    ['top_p', !isGreedy && generation.top_p !== 1],
    ['top_k', !isGreedy && generation.top_k > 0],
    ['min_p', !isGreedy && generation.min_p !== 0],
    ['min_tokens', generation.min_tokens !== 0],
    ['repetition_penalty', generation.repetition_penalty !== 1],
    ['presence_penalty', generation.presence_penalty !== 0],
    ['frequency_penalty', generation.frequency_penalty !== 0],
    ['bad_words', generation.bad_words.length > 0],
  ];
  return changes.filter(([, isChanged]) => isChanged).map(([field]) => field);
}

export const TO_HAVE_PROCESSED =
  'start vLLM with --logprobs-mode processed_logprobs, SGLang without SGLANG_RETURN_ORIGINAL_LOGPROB';

/** Why an engine's logprobs do not fit the request; null: they do. */
export function refusalOfMode(
  mode: LogprobsMode,
  { generation, replica }: { generation: GenerationSettings; replica: string },
): string | null {
  const fields = reshapedBy(generation);
  if (mode !== 'raw' || generation.logprobs_mode === 'raw' || fields.length === 0) return null;
  return `expected processed logprobs, got raw ones from ${replica}: they are of the distribution before ${fields.join(', ')}; ${TO_HAVE_PROCESSED}, or ask for "raw"`;
}

export function modeOfAll(modes: Iterable<LogprobsMode>): LogprobsMode | null {
  const [first, ...others] = new Set(modes);
  return others.length > 0 ? 'unknown' : (first ?? null);
}
