import {
  createBodyReader,
  LIST_TYPE,
  parseInteger,
  pythonFloat,
  STRING_TYPE,
  type Body,
  type BodyReader,
  type FieldProblem,
} from './body-reader.js';
import type { AnswerOptions } from './answer.js';
import type { Sampling } from './distribution.js';
import { badRequest, errorBody, Refusal } from './http-exchange.js';
import type { SimulatorSettings } from './settings.js';
import { encode, VOCABULARY_SIZE } from './tokenizer.js';

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

export type Limits = Pick<SimulatorSettings, 'model' | 'max_model_len'>;

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

/** Ids or a text. Any other list fails all four of pydantic's branches (captures 044, 045). */
function readPrompt(prompt: unknown, reader: BodyReader): number[] {
  if (typeof prompt === 'string') return encode(prompt);
  if (!Array.isArray(prompt)) {
    const branches = [LIST_TYPE, LIST_TYPE, STRING_TYPE, LIST_TYPE];
    for (const branch of branches) reader.add({ ...branch, loc: 'prompt', input: prompt });
    return [];
  }
  const items = prompt as readonly unknown[];
  const ids = items.map((item) => parseInteger(item));
  const isBatch = items.length > 0 && items.every((item) => typeof item === 'string' || Array.isArray(item));
  if (isBatch) throw notImplemented('prompt', 'a list of prompts');
  const problems = items.flatMap((item, i): FieldProblem[] => {
    const loc = `prompt.${i}`;
    const id = ids[i];
    if (id === undefined || !('value' in id)) return id === undefined ? [] : [{ ...id, loc, input: item }];
    const msg = 'Input should be greater than or equal to 0';
    return id.value < 0
      ? [{ type: 'greater_than_equal', loc, msg, input: item, ctx: { ge: 0 } }]
      : [];
  });
  if (problems.length === 0) return items as number[];
  const everyItem = (branch: Pick<FieldProblem, 'type' | 'msg'>): FieldProblem[] =>
    items.map((input, i) => ({ ...branch, loc: `prompt.${i}`, input }));
  const whole = { ...STRING_TYPE, loc: 'prompt', input: items };
  for (const problem of [...problems, ...everyItem(LIST_TYPE), whole, ...everyItem(STRING_TYPE)]) {
    reader.add(problem);
  }
  return [];
}

function readStop(stop: unknown, reader: BodyReader): string[] {
  if (stop === undefined || stop === null) return [];
  if (typeof stop === 'string') return [stop];
  if (!Array.isArray(stop)) {
    reader.add({ ...STRING_TYPE, loc: 'stop', input: stop });
    reader.add({ ...LIST_TYPE, loc: 'stop', input: stop });
    return [];
  }
  return (stop as unknown[]).map((item, i) => {
    if (typeof item === 'string') return item;
    reader.add({ ...STRING_TYPE, loc: `stop.${i}`, input: item });
    return '';
  });
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

/** 404 as captures 049 and 234. No name is the served one. */
export function checkModel(model: string | null, limits: Pick<Limits, 'model'>): void {
  if (model === null || model === '' || model === limits.model) return;
  const message = `The model \`${model}\` does not exist. Valid aliases: ${limits.model}.`;
  const body = errorBody({ message, type: 'NotFoundError', param: 'model', code: 404 });
  throw new Refusal({ status: 404, body });
}

/** What would change the distribution and is not played here is refused, unless it has no effect. */
const NEUTRAL: readonly (readonly [field: string, neutral: unknown])[] = [
  ['n', 1],
  ['echo', false],
  ['suffix', ''],
  ['use_beam_search', false],
  ['repetition_penalty', 1],
  ['presence_penalty', 0],
  ['frequency_penalty', 0],
  ['logit_bias', {}],
  ['allowed_token_ids', []],
  ['bad_words', []],
  ['logprob_token_ids', []],
  ['prompt_logprobs', null],
  ['prompt_embeds', null],
  ['truncate_prompt_tokens', null],
  ['structured_outputs', null],
  ['response_format', { type: 'text' }],
  ['thinking_token_budget', null],
  ['repetition_detection', null],
];

function checkImplemented(body: Body): void {
  for (const [field, neutral] of NEUTRAL) {
    const value = body[field];
    if (isGiven(value) && JSON.stringify(value) !== JSON.stringify(neutral)) {
      throw notImplemented(field, JSON.stringify(value));
    }
  }
}

function notImplemented(field: string, value: string): Refusal {
  return badRequest(`The simulator does not implement ${field}: got ${value.slice(0, 80)}`, field);
}

/** The output length that the context leaves (captures 035, 037, 039, 040). */
function fitTokens(
  { prompt, max_tokens }: { prompt: number; max_tokens: number },
  { max_model_len }: Limits,
): number {
  if (max_tokens > max_model_len) {
    const message = `max_tokens=${max_tokens} cannot be greater than max_model_len=${max_model_len}. Please request fewer output tokens.`;
    throw badRequest(`${message} (parameter=max_tokens, value=${max_tokens})`, 'max_tokens');
  }
  if (prompt === 0) throw badRequest('You must pass at least one prompt');
  if (prompt > max_model_len) {
    const message = `This model's maximum context length is ${max_model_len} tokens. However, your prompt contains ${prompt} input tokens, which exceeds this limit even without any output tokens. Please reduce the length of the input prompt.`;
    throw badRequest(`${message} (parameter=input_tokens, value=${prompt})`, 'input_tokens');
  }
  return Math.min(max_tokens, max_model_len - prompt);
}

const MAX_LOGPROBS = 20;

interface SamplingFields {
  sampling: Sampling;
  max_tokens: number;
  min_tokens: number;
  logprobs: number | null;
  stop: readonly string[];
}

function checkSampling(request: SamplingFields): void {
  const { max_tokens, min_tokens, logprobs, stop } = request;
  checkRanges(request.sampling);
  if (max_tokens < 1) {
    const message = `max_tokens must be at least 1, got ${max_tokens}.`;
    throw badRequest(`${message} (parameter=max_tokens, value=${max_tokens})`, 'max_tokens');
  }
  if (min_tokens < 0) {
    throw badRequest(`min_tokens must be greater than or equal to 0, got ${min_tokens}.`);
  }
  if (min_tokens > max_tokens) {
    const message = `min_tokens must be less than or equal to max_tokens=${max_tokens}`;
    throw badRequest(`${message}, got ${min_tokens}.`);
  }
  if (stop.includes('')) throw badRequest('stop cannot contain an empty string.');
  if (logprobs !== null && logprobs > MAX_LOGPROBS) {
    const message = `Requested sample logprobs of ${logprobs}, which is greater than max allowed: ${MAX_LOGPROBS}`;
    throw badRequest(`${message} (parameter=logprobs, value=${logprobs})`, 'logprobs');
  }
}

function checkRanges({ temperature, top_p, top_k, min_p }: Sampling): void {
  if (temperature < 0) {
    const got = pythonFloat(temperature);
    const message = `temperature must be non-negative, got ${got}.`;
    throw badRequest(`${message} (parameter=temperature, value=${got})`, 'temperature');
  }
  if (top_p <= 0 || top_p > 1) {
    const got = pythonFloat(top_p);
    throw badRequest(`top_p must be in (0, 1], got ${got}. (parameter=top_p, value=${got})`, 'top_p');
  }
  if (top_k < -1) {
    throw badRequest(`top_k must be 0 (disable), or at least 1, got ${top_k}.`);
  }
  if (min_p < 0 || min_p > 1) {
    throw badRequest(`min_p must be in [0, 1], got ${pythonFloat(min_p)}.`);
  }
}

/** Capture 042. */
function checkVocabulary(prompt: readonly number[]): void {
  const stranger = prompt.find((id) => id >= VOCABULARY_SIZE);
  if (stranger !== undefined) throw badRequest(`Token id ${stranger} is out of vocabulary`);
}
