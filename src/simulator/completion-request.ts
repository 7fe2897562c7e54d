import type { AnswerOptions } from './answer.js';
import { createBodyReader, type Body, type BodyReader } from './body-reader.js';
import { readPrompt, readStop } from './completion-prompt.js';
import type { Sampling } from './distribution.js';
import { badRequest } from './http-exchange.js';
import {
  checkImplemented,
  checkModel,
  checkSampling,
  checkVocabulary,
  fitTokens,
  type Limits,
} from './request-limits.js';

/** A checked `POST /v1/completions`. */
export interface CompletionRequest extends AnswerOptions {
  /** The client's own id; null: the server makes one up. */
  request_id: string | null;
  sampling: Sampling;
  seed: number | null;
  logprobs: boolean;
  return_token_ids: boolean;
  stream: boolean;
  include_usage: boolean;
  continuous_usage_stats: boolean;
}

/** Checks in vLLM's order, so that the same request gets the same complaint (captures 035 to 063). Throws a `Refusal`. */
export function parseCompletionRequest(body: Body, limits: Limits): CompletionRequest {
  checkBeforeTypes(body);
  const reader = createBodyReader(body);
  const fields = readFields(reader);
  const prompt = readPrompt(body['prompt'], reader);
  const stop = readStop(body['stop'], reader);
  const stream_options = readStreamOptions(body['stream_options'], reader);
  reader.check();
  checkModel(fields.model, limits);
  checkImplemented(body);
  const { max_tokens, ...rest } = fields;
  const request = {
    ...rest,
    ...stream_options,
    prompt,
    stop,
    max_tokens: fitTokens({ prompt: prompt.length, max_tokens }, limits),
  };
  checkSampling(request);
  checkVocabulary(prompt);
  return { ...request, logprobs: request.logprobs !== null };
}

/** What pydantic's `before` validators look at, in the raw body. */
function checkBeforeTypes(body: Body): void {
  if (body['cache_salt'] === '') {
    const message = "Parameter 'cache_salt' must be a non-empty string if provided.";
    throw badRequest(`${message} (parameter=cache_salt)`, 'cache_salt');
  }
  const { prompt, logprobs, prompt_logprobs, stream } = body;
  if (prompt === undefined || prompt === null || prompt === '') {
    const message = 'Either prompt or prompt_embeds must be provided and non-empty.';
    throw badRequest(`${message} (parameter=prompt)`, 'prompt');
  }
  if (isGiven(body['stream_options']) && stream !== true) {
    const message = 'Stream options can only be defined when `stream=True`.';
    throw badRequest(`${message} (parameter=stream_options)`, 'stream_options');
  }
  if (isGiven(prompt_logprobs) && stream === true) {
    const message = '`prompt_logprobs` are not available when `stream=True`.';
    throw badRequest(`${message} (parameter=prompt_logprobs)`, 'prompt_logprobs');
  }
  if (typeof logprobs === 'number' && logprobs < 0) {
    const message = '`logprobs` must be a positive value.';
    throw badRequest(`${message} (parameter=logprobs, value=${logprobs})`, 'logprobs');
  }
}

function isGiven(value: unknown): boolean {
  return value !== undefined && value !== null;
}

const REQUIRED = { nullable: false };

/** Fields left out have vLLM's defaults, with `--generation-config vllm`. */
function readFields(reader: BodyReader) {
  const seed = reader.int('seed');
  if (seed !== null && seed >= 2 ** 63) {
    reader.add({
      type: 'less_than_equal',
      loc: 'seed',
      msg: 'Input should be less than or equal to 9223372036854775807',
      input: seed,
      ctx: { le: 9223372036854775807n },
    });
  }
  return {
    model: reader.text('model'),
    max_tokens: reader.int('max_tokens') ?? 16,
    seed: seed === -1 ? null : seed,
    logprobs: reader.int('logprobs'),
    stream: reader.bool('stream') ?? false,
    sampling: {
      temperature: reader.float('temperature') ?? 1,
      top_p: reader.float('top_p') ?? 1,
      top_k: reader.int('top_k') ?? 0,
      min_p: reader.float('min_p') ?? 0,
    },
    stop_token_ids: reader.ints('stop_token_ids') ?? [],
    include_stop_str_in_output: reader.bool('include_stop_str_in_output', REQUIRED) ?? false,
    ignore_eos: reader.bool('ignore_eos', REQUIRED) ?? false,
    min_tokens: reader.int('min_tokens', REQUIRED) ?? 0,
    skip_special_tokens: reader.bool('skip_special_tokens', REQUIRED) ?? true,
    request_id: reader.text('request_id'),
    return_tokens_as_token_ids: reader.bool('return_tokens_as_token_ids') ?? false,
    return_token_ids: reader.bool('return_token_ids') ?? false,
  };
}

/** `include_usage` is on as soon as there are stream options. */
function readStreamOptions(options: unknown, reader: BodyReader) {
  if (options === undefined || options === null) {
    return { include_usage: false, continuous_usage_stats: false };
  }
  if (typeof options !== 'object') {
    const msg = 'Input should be a valid dictionary or object to extract fields from';
    reader.add({ type: 'model_attributes_type', loc: 'stream_options', msg, input: options });
    return { include_usage: false, continuous_usage_stats: false };
  }
  const nested = createBodyReader(options as Body);
  const read = {
    include_usage: nested.bool('include_usage') ?? true,
    continuous_usage_stats: nested.bool('continuous_usage_stats') ?? false,
  };
  nested.check();
  return read;
}
