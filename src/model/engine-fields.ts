/**
 * What becomes of each field that vLLM 0.32.0 takes for a completion or as a sampling parameter. docs/engines.md lists
 * those with another name here. A test compares this with the engine's own schema and with what is sent.
 */

/** `setting`: passed on, under this name of `generation`. `ours`: sent with a value of this project. */
export type Fate = { setting: string } | { ours: string } | { refused: string };

const set = (setting: string): Fate => ({ setting });
const ours = (why: string): Fate => ({ ours: why });
const refused = (why: string): Fate => ({ refused: why });

const IDS = 'the prompt is the ids of the message log';
const OUTSIDE = 'no trainer computes its logprobs again';
const STATELESS = 'an interrupted turn could not continue';
const ONE_FORM = 'it changes the form of the answer';

export const ENGINE_FIELDS: Readonly<Record<string, Fate>> = {
  model: set('model'),
  temperature: set('temperature'),
  top_p: set('top_p'),
  top_k: set('top_k'),
  min_p: set('min_p'),
  repetition_penalty: set('repetition_penalty'),
  presence_penalty: set('presence_penalty'),
  frequency_penalty: set('frequency_penalty'),
  min_tokens: set('min_tokens'),
  max_tokens: set('max_new_tokens'),
  ignore_eos: set('ignore_eos'),
  stop: set('stop_strings'),
  stop_token_ids: set('stop_token_ids'),
  bad_words: set('bad_words'),
  structured_outputs: set('structured_outputs'),
  seed: set('seed'),
  logprobs: set('top_logprobs'),
  prompt_logprobs: set('prompt_logprobs'),
  prompt: ours(IDS),
  n: ours('1; a sample is repeated by `num_repeats`'),
  stream: ours('true'),
  stream_options: ours('a count in each event, against which its tokens are checked'),
  return_token_ids: ours('true'),
  return_weight_versions: ours('true'),
  return_tokens_as_token_ids: ours('true with `top_logprobs`'),
  include_stop_str_in_output: ours('true'),
  skip_special_tokens: ours('true, but for agents; it concerns the text alone'),
  detokenize: ours('false on `wire: generate`'),
  cache_salt: ours('the version of the weights, once some are published'),
  request_id: ours('a header, unique for each attempt'),
  session_id: ours('a header, the id of the rollout'),
  response_format: refused('use structured_outputs'),
  allowed_token_ids: refused(OUTSIDE),
  logit_bias: refused(OUTSIDE),
  watermarking: refused(OUTSIDE),
  use_beam_search: refused(OUTSIDE),
  length_penalty: refused('beam search samples nothing'),
  trace_decode_token_ids: refused('the engine would say what it did not sample'),
  vllm_xargs: refused(OUTSIDE),
  extra_args: refused(OUTSIDE),
  thinking_token_budget: refused(STATELESS),
  repetition_detection: refused(STATELESS),
  add_special_tokens: refused(IDS),
  echo: refused(IDS),
  suffix: refused(IDS),
  prompt_embeds: refused(IDS),
  mm_payload: refused(IDS),
  truncate_prompt_tokens: refused(IDS),
  truncation_side: refused(IDS),
  logprob_token_ids: refused('use top_logprobs'),
  prompt_logprob_token_ids: refused('use prompt_logprobs'),
  prompt_logprob_start: refused('use prompt_logprobs'),
  flat_logprobs: refused(ONE_FORM),
  output_kind: refused(ONE_FORM),
  stream_interval: refused('set --stream-interval of the server'),
  spaces_between_special_tokens: refused(ONE_FORM),
  return_token_offsets: refused(ONE_FORM),
  return_mm_kwargs: refused(ONE_FORM),
  routed_experts_prompt_start: refused('rows have no routed experts'),
  priority: refused('rollouts are served alike'),
  user: refused('engines do nothing with it'),
  kv_transfer_params: refused('a router of the deployment sets it'),
  ec_transfer_params: refused('a router of the deployment sets it'),
  skip_clone: refused('it is internal to the engine'),
  output_text_buffer_length: refused('it is internal to the engine'),
  skip_reading_prefix_cache: refused('`cache_salt` keeps versions apart'),
};

/** Why a setting of this name is not taken; null: it is no field of the engine, or taken under another name. */
export function whyRefused(name: string): string | null {
  const fate = Object.hasOwn(ENGINE_FIELDS, name) ? ENGINE_FIELDS[name] : undefined;
  if (fate === undefined || 'setting' in fate) return null;
  return 'ours' in fate ? `this project sends it: ${fate.ours}` : `not passed on: ${fate.refused}`;
}
