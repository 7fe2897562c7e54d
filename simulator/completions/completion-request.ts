import { z } from 'zod';
import type { AnswerOptions } from './answer.js';
import type { Sampling } from '../policy/distribution.js';
import { badRequest } from '../wire/http-exchange.js';
import {
  checkImplemented,
  checkModel,
  checkSampling,
  checkVocabulary,
  fitTokens,
  notImplemented,
  type Limits,
} from '../wire/request-limits.js';
import { encode } from '../policy/tokenizer.js';

/** A checked `POST /v1/completions`. */
export interface CompletionRequest extends AnswerOptions {
  /** Null or empty: the server's own. */
  model: string | null;
  /** The client's own id; null: the server makes one up. */
  request_id: string | null;
  sampling: Sampling;
  seed: number | null;
  logprobs: boolean;
  /** 0: each token has only its own logprob. */
  top_logprobs: number;
  /** For the prompt's tokens; not in a stream. */
  prompt_logprobs: boolean;
  /** Nothing is sampled; absent: something is. */
  computes_only?: boolean;
  return_token_ids: boolean;
  /** Which of the prompt's ids stand for pictures; absent: no wire that takes some. */
  places?: readonly { offset: number; length: number }[];
  stream: boolean;
  include_usage: boolean;
  continuous_usage_stats: boolean;
}

/** Omitted fields have vLLM's defaults, with `--generation-config vllm`. */
export const CompletionBody = z.looseObject({
  model: z.string().nullish(),
  /** Ids or a text; a list of prompts is refused later, by name. */
  prompt: z
    .union([
      z.string(),
      z.array(z.int().nonnegative()),
      z.array(z.union([z.string(), z.array(z.unknown())])),
    ])
    .nullish(),
  max_tokens: z
    .int()
    .nullish()
    .transform((value) => value ?? 16),
  seed: z.int().nullish(),
  logprobs: z.int().nullish(),
  /** No other logprobs than the token's own. */
  prompt_logprobs: z.int().nullish(),
  stream: z.boolean().nullish(),
  stream_options: z
    .looseObject({
      include_usage: z.boolean().nullish(),
      continuous_usage_stats: z.boolean().nullish(),
    })
    .nullish(),
  temperature: z.number().nullish(),
  top_p: z.number().nullish(),
  top_k: z.int().nullish(),
  min_p: z.number().nullish(),
  stop: z.union([z.string(), z.array(z.string())]).nullish(),
  stop_token_ids: z.array(z.int()).nullish(),
  include_stop_str_in_output: z.boolean().default(false),
  ignore_eos: z.boolean().default(false),
  min_tokens: z.int().default(0),
  skip_special_tokens: z.boolean().default(true),
  request_id: z.string().nullish(),
  return_tokens_as_token_ids: z.boolean().nullish(),
  return_token_ids: z.boolean().nullish(),
  cache_salt: z.string().min(1).nullish(),
});
type CompletionBody = z.infer<typeof CompletionBody>;

/** Checks in vLLM's order, so that the same request gets the same complaint. Throws a `Refusal`. */
export function checkCompletion(body: CompletionBody, limits: Limits): CompletionRequest {
  checkStreaming(body);
  const prompt = promptOf(body);
  const { stop, stream_options } = body;
  checkModel(body.model ?? null, limits);
  checkImplemented(body);
  const request = {
    model: body.model ?? null,
    request_id: body.request_id ?? null,
    sampling: {
      temperature: body.temperature ?? 1,
      top_p: body.top_p ?? 1,
      top_k: body.top_k ?? 0,
      min_p: body.min_p ?? 0,
    },
    seed: body.seed === -1 ? null : (body.seed ?? null),
    logprobs: body.logprobs ?? null,
    stream: body.stream ?? false,
    // On as soon as there are stream options.
    include_usage: stream_options != null && (stream_options.include_usage ?? true),
    continuous_usage_stats: stream_options?.continuous_usage_stats ?? false,
    stop: typeof stop === 'string' ? [stop] : (stop ?? []),
    stop_token_ids: body.stop_token_ids ?? [],
    include_stop_str_in_output: body.include_stop_str_in_output,
    ignore_eos: body.ignore_eos,
    min_tokens: body.min_tokens,
    skip_special_tokens: body.skip_special_tokens,
    return_tokens_as_token_ids: body.return_tokens_as_token_ids ?? false,
    return_token_ids: body.return_token_ids ?? false,
    prompt,
    max_tokens: fitTokens({ prompt: prompt.length, max_tokens: body.max_tokens }, limits),
  };
  checkSampling(request);
  checkVocabulary(prompt);
  return {
    ...request,
    logprobs: request.logprobs !== null,
    top_logprobs: request.logprobs ?? 0,
    prompt_logprobs: body.prompt_logprobs != null,
  };
}

function checkStreaming({ stream, stream_options, logprobs, ...body }: CompletionBody): void {
  if (stream_options != null && stream !== true)
    throw badRequest('expected stream_options only with stream: true', 'stream_options');
  if (body['prompt_logprobs'] != null && stream === true)
    throw badRequest('expected prompt_logprobs only without stream', 'prompt_logprobs');
  if (logprobs != null && logprobs < 0)
    throw badRequest(`expected logprobs of at least 0, got ${logprobs}`, 'logprobs');
}

function promptOf({ prompt }: CompletionBody): number[] {
  if (prompt == null || prompt === '') throw badRequest('expected a prompt, got none', 'prompt');
  if (typeof prompt === 'string') return encode(prompt);
  if (prompt.every((item) => typeof item === 'number')) return prompt;
  throw notImplemented('prompt', 'a list of prompts');
}
