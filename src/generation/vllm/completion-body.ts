import { KeptJson } from '../../platform/json/kept.js';
import type { GenerationRequest } from '../generation-service.js';

/**
 * The body of `POST /v1/completions`. Every sampling parameter is sent, because the server fills in missing ones from
 * the model's `generation_config.json`. It silently ignores unknown fields, so the reply is checked instead.
 */
export function completionBody(request: GenerationRequest): Record<string, unknown> {
  return {
    model: request.adapter ?? request.model,
    prompt: request.prompt_ids,
    max_tokens: request.max_tokens,
    n: 1,
    temperature: request.temperature,
    top_p: request.top_p,
    top_k: request.top_k,
    min_p: request.min_p,
    repetition_penalty: request.repetition_penalty,
    presence_penalty: request.presence_penalty,
    frequency_penalty: request.frequency_penalty,
    min_tokens: request.min_tokens,
    ignore_eos: request.ignore_eos,
    skip_special_tokens: request.shows_special_tokens !== true,
    include_stop_str_in_output: true,
    stream: true,
    // Each event counts its tokens: one that was repeated or lost on the way does not fit.
    stream_options: { include_usage: true, continuous_usage_stats: true },
    return_token_ids: true,
    // From vLLM 0.33 on.
    return_weight_versions: true,
    // 0: only the sampled token's own logprob.
    ...(request.logprobs && { logprobs: request.top_logprobs }),
    // Otherwise ids are named by their texts, which are not unique.
    ...(request.top_logprobs > 0 && { return_tokens_as_token_ids: true }),
    ...(request.bad_words.length > 0 && { bad_words: request.bad_words }),
    ...(request.structured_outputs !== null && {
      structured_outputs: structureOf(request.structured_outputs),
    }),
    ...(request.stop_strings.length > 0 && { stop: request.stop_strings }),
    ...(request.stop_token_ids.length > 0 && { stop_token_ids: request.stop_token_ids }),
    ...(request.seed !== null && { seed: request.seed }),
    ...(request.cache_salt !== undefined && { cache_salt: request.cache_salt }),
  };
}

/** The package that sends it writes plain values only, and engines take a schema as text, too. */
const structureOf = ({
  json,
  ...given
}: NonNullable<GenerationRequest['structured_outputs']>): Record<string, unknown> => ({
  ...given,
  ...(json !== undefined && { json: json instanceof KeptJson ? json.text : json }),
});
