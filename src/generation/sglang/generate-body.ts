import { randomUUID } from 'node:crypto';
import { writeJson } from '../../platform/json/kept.js';
import type { GenerationRequest } from '../generation-service.js';
import { isFiltered } from './limits.js';

/**
 * The body of `POST /generate`. Every sampling parameter is sent, because the server fills in others from the model's
 * folder. Stop strings are matched on this side: the engine's match special tokens and before `min_new_tokens`.
 */
export function generateBody(
  request: GenerationRequest,
  { served_model_name }: { served_model_name: string },
): Record<string, unknown> {
  const { adapter = request.model === served_model_name ? undefined : request.model } = request;
  return {
    // An abort of one aborts all that begin with it. An engine may still have the request of a stream that broke.
    rid: `${randomUUID()}.${request.request_id}`,
    input_ids: request.prompt_ids,
    ...(adapter !== undefined && { lora_path: adapter }),
    ...(request.cache_salt !== undefined && { extra_key: request.cache_salt }),
    stream: true,
    ...(request.logprobs && {
      return_logprob: true,
      logprob_start_len: -1,
      top_logprobs_num: request.top_logprobs,
      // Its other logprobs are of the distribution before the filters.
      ...(isFiltered(request) && { return_sampling_mask: true }),
    }),
    sampling_params: {
      n: 1,
      max_new_tokens: request.max_tokens,
      min_new_tokens: request.min_tokens,
      temperature: request.temperature,
      top_p: request.top_p,
      top_k: request.top_k > 0 ? request.top_k : -1,
      min_p: request.min_p,
      repetition_penalty: request.repetition_penalty,
      presence_penalty: request.presence_penalty,
      frequency_penalty: request.frequency_penalty,
      ignore_eos: request.ignore_eos,
      ...(request.stop_token_ids.length > 0 && { stop_token_ids: request.stop_token_ids }),
      ...(request.structured_outputs !== null && structureOf(request.structured_outputs)),
      ...(request.seed !== null && { sampling_seed: request.seed }),
    },
  };
}

type Structure = NonNullable<GenerationRequest['structured_outputs']>;

/** It takes a schema as text. */
function structureOf({ json, regex, grammar, structural_tag, json_object }: Structure): object {
  if (json_object === true) return { json_schema: '{"type":"object"}' };
  if (json !== undefined) return { json_schema: typeof json === 'string' ? json : writeJson(json) };
  if (regex !== undefined) return { regex };
  return grammar === undefined ? { structural_tag } : { ebnf: grammar };
}
