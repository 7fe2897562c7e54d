import type { Sampling } from '../policy/distribution.js';
import { badRequest, errorBody, Refusal } from './http-exchange.js';
import type { SimulatorSettings } from '../settings.js';
import { VOCABULARY_SIZE } from '../policy/tokenizer.js';

export interface Limits extends Pick<SimulatorSettings, 'model' | 'max_model_len'> {
  /** Names of loaded adapters, which are models, too. */
  adapters?: readonly string[];
}

/** 404 as in capture 049. Without a name the served model is used. */
export function checkModel(model: string | null, limits: Pick<Limits, 'model' | 'adapters'>): void {
  if (model === null || model === '' || model === limits.model) return;
  if (limits.adapters?.includes(model) === true) return;
  const message = `The model \`${model}\` does not exist. Valid aliases: ${limits.model}.`;
  const body = errorBody({ message, type: 'NotFoundError', param: 'model', code: 404 });
  throw new Refusal({ status: 404, body });
}

/** Settings that would change the distribution and are not implemented are refused, unless they have no effect. */
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
  ['prompt_embeds', null],
  ['truncate_prompt_tokens', null],
  ['structured_outputs', null],
  ['response_format', { type: 'text' }],
  ['thinking_token_budget', null],
  ['repetition_detection', null],
];

export function checkImplemented(body: Readonly<Record<string, unknown>>): void {
  for (const [field, neutral] of NEUTRAL) {
    const value = body[field];
    if (
      value !== undefined &&
      value !== null &&
      JSON.stringify(value) !== JSON.stringify(neutral)
    ) {
      throw notImplemented(field, JSON.stringify(value));
    }
  }
}

export function notImplemented(field: string, value: string): Refusal {
  return badRequest(`The simulator does not implement ${field}: got ${value.slice(0, 80)}`, field);
}

/** The output length that the context leaves. */
export function fitTokens(
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

/** In the order in which vLLM checks them. */
export function checkSampling(request: SamplingFields): void {
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
    throw badRequest(`temperature must be non-negative, got ${temperature}.`, 'temperature');
  }
  if (top_p <= 0 || top_p > 1) {
    throw badRequest(`top_p must be in (0, 1], got ${top_p}.`, 'top_p');
  }
  if (top_k < -1) {
    throw badRequest(`top_k must be 0 (disable), or at least 1, got ${top_k}.`);
  }
  if (min_p < 0 || min_p > 1) {
    throw badRequest(`min_p must be in [0, 1], got ${min_p}.`);
  }
}

/** Capture 042. */
export function checkVocabulary(prompt: readonly number[]): void {
  const stranger = prompt.find((id) => id >= VOCABULARY_SIZE);
  if (stranger !== undefined) throw badRequest(`Token id ${stranger} is out of vocabulary`);
}
