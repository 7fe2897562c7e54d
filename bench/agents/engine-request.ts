import type { GenerationRequest } from '../../src/generation/generation-service.js';

/** As the gateway asks engines, but without its seed. */
export const requestOf = (
  prompt_ids: readonly number[],
  request_id: string,
): GenerationRequest => ({
  prompt_ids,
  model: 'simulator',
  max_tokens: 1000,
  min_tokens: 0,
  temperature: 1,
  top_p: 1,
  top_k: -1,
  min_p: 0,
  repetition_penalty: 1,
  presence_penalty: 0,
  frequency_penalty: 0,
  ignore_eos: false,
  bad_words: [],
  structured_outputs: null,
  seed: null,
  stop_strings: [],
  stop_token_ids: [],
  logprobs: true,
  top_logprobs: 0,
  request_id,
  session_id: request_id,
});
