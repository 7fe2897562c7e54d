import { z } from 'zod';
import type { CompletionRequest } from '../../completions/completion-request.js';
import { checkCompletion, CompletionBody } from '../../completions/completion-request.js';
import type { Piece, Wire, WireFacts } from '../../completions/completion-wire.js';
import type { Speech } from '../../completions/completions.js';
import { IM_END, VOCABULARY_SIZE } from '../../policy/tokenizer.js';
import type { SimulatorSettings } from '../../settings.js';
import type { WeightStore } from '../../weights.js';
import { readBody } from '../body-reader.js';
import type { Exchange } from '../http-exchange.js';
import { Refusal } from '../http-exchange.js';
import type { FrontEnd } from './front-end.js';

interface GenerateParts {
  settings: Readonly<SimulatorSettings>;
  weights: WeightStore;
  front: FrontEnd;
  exit: () => void;
}

/** `POST /generate` of SGLang 0.5.23 (captures 01 to 03, 12, 14, 15 and 18). */
export const createGenerate = (parts: GenerateParts): Speech => ({
  id_prefix: '',
  read: (exchange) => readGenerate(exchange, parts),
  write: (facts) => createGenerateWire(facts, parts),
});

const Body = z.looseObject({
  rid: z.string().nullish(),
  input_ids: z.array(z.int()).min(1),
  lora_path: z.string().nullish(),
  stream: z.boolean().default(false),
  return_logprob: z.boolean().default(false),
  logprob_start_len: z.int().default(-1),
  top_logprobs_num: z.int().default(0),
  sampling_params: z
    .looseObject({
      max_new_tokens: z.int().nonnegative().default(128),
      min_new_tokens: z.int().optional(),
      temperature: z.number().optional(),
      top_p: z.number().optional(),
      top_k: z.int().optional(),
      min_p: z.number().optional(),
      stop: z.union([z.string(), z.array(z.string())]).nullish(),
      stop_token_ids: z.array(z.int()).nullish(),
      ignore_eos: z.boolean().optional(),
      logit_bias: z.record(z.string(), z.number()).nullish(),
    })
    .prefault({}),
});
type Body = z.infer<typeof Body>;

/** Its longest prompt is shorter by this than its context. */
export const RESERVED = 6;

async function readGenerate(exchange: Exchange, parts: GenerateParts): Promise<CompletionRequest> {
  const body = await readBody(exchange, Body);
  try {
    return requestOf(body, { ...parts, exchange });
  } catch (error) {
    // A stream has begun before its request is checked.
    throw error instanceof Refusal && body.stream ? inStream(error) : error;
  }
}

function requestOf(
  body: Body,
  { settings, weights, front, exit, exchange }: GenerateParts & { exchange: Exchange },
): CompletionRequest {
  const { input_ids, lora_path, sampling_params, ...asked } = body;
  const { max_new_tokens, min_new_tokens, logit_bias, ...sampling } = sampling_params;
  const { max_model_len: most } = settings;
  const foreign = Object.keys(logit_bias ?? {}).find((id) => !(Number(id) >= 0));
  if (foreign !== undefined)
    throw refusal(`logit_bias must has keys in [0, ${VOCABULARY_SIZE - 1}], got ${foreign}.`);
  const tokens = input_ids.length;
  if (tokens >= most)
    throw refusal(
      `The input (${tokens} tokens) is longer than the model's context length (${most} tokens).`,
    );
  if (tokens + max_new_tokens > most)
    throw refusal(
      `Requested token count exceeds the model's maximum context length of ${most} tokens. You requested a total of ${tokens + max_new_tokens} tokens: ${tokens} tokens from the input messages and ${max_new_tokens} tokens for the completion. Please reduce the number of tokens in the input messages or the completion to fit within the limit.`,
    );
  if (tokens > most - RESERVED)
    throw lateRefusal(
      `Input length (${tokens} tokens) exceeds the maximum allowed length (${most - RESERVED} tokens). Use a shorter input or enable --allow-auto-truncate.`,
    );
  // The scheduler ends with an IndexError, and the server with it.
  if (input_ids.some((id) => id < 0)) exit();
  if (lora_path != null) {
    if (!weights.adapters().includes(lora_path) && !weights.reloadAdapter(lora_path))
      throw refusal(
        `Got LoRA adapter that has never been loaded: ${lora_path}\nAll loaded adapters: dict_keys([]).`,
      );
    front.uses(lora_path, exchange.response);
  }
  const vllm = CompletionBody.parse({
    ...sampling,
    // Ids that the embedding has beyond the vocabulary mean nothing.
    prompt: input_ids.map((id) => id % VOCABULARY_SIZE),
    max_tokens: Math.max(1, max_new_tokens),
    min_tokens: min_new_tokens ?? 0,
    model: lora_path,
    request_id: asked.rid,
    stream: asked.stream,
    logprobs: asked.return_logprob ? asked.top_logprobs_num : null,
  });
  const limits = { ...settings, adapters: weights.adapters() };
  return {
    ...checkCompletion(vllm, limits),
    prompt_logprobs: asked.return_logprob && asked.logprob_start_len === 0,
    computes_only: max_new_tokens === 0,
  };
}

const refusal = (message: string): Refusal =>
  new Refusal({ status: 400, body: { error: { message } } });

/** Found by the scheduler: an answer in a stream, with an id that is no token. */
function lateRefusal(message: string): Refusal {
  const finish_reason = {
    type: 'abort',
    message,
    status_code: 400,
    err_type: 'BadRequestError',
  };
  const meta_info = { id: '', finish_reason, prompt_tokens: 1, completion_tokens: 0 };
  return new Refusal({
    status: 400,
    body: { error: { message } },
    event: { text: '', output_ids: [0], meta_info },
  });
}

function inStream({ status, body, event }: Refusal): Refusal {
  const { message } = (body as { error: { message: string } }).error;
  const error = { message, type: 'invalid_request_error', code: status, retryable: false };
  return new Refusal({ status: 200, body: null, event: event ?? { error } });
}

/** What ended it, in SGLang's words. */
function finishOf(
  { finish_reason, end }: Piece,
  { answer, request }: Pick<WireFacts, 'answer' | 'request'>,
): object | null {
  if (finish_reason === null) return null;
  if (request.computes_only === true) return { type: 'length', length: 0 };
  if (finish_reason === 'length') return { type: 'length', length: end };
  if (finish_reason === 'stop') return { type: 'stop', matched: answer.stop_reason ?? IM_END };
  return { type: 'abort', message: 'Aborted', status_code: null, err_type: null };
}

function createGenerateWire(facts: WireFacts, { settings, front }: GenerateParts): Wire {
  const { id, request, answer, spans } = facts;
  const scored = (start: number, end: number) =>
    answer.logprobs.slice(start, end).map((of, i) => [of, answer.token_ids[start + i], null]);
  const topsOf = (start: number, end: number) =>
    (answer.generated_tops ?? [])
      .slice(start, end)
      .map((tops) => tops.map(([top, of]) => [of, top, null]));
  const bodyOf = (piece: Piece, start: number) => {
    const { finish_reason } = piece;
    const end = request.computes_only === true ? 0 : piece.end;
    return {
      text: answer.text.slice(answer.text_ends[start - 1] ?? 0, answer.text_ends[end - 1] ?? 0),
      output_ids: answer.token_ids.slice(start, end),
      meta_info: {
        id,
        finish_reason: finishOf(piece, { answer, request }),
        prompt_tokens: request.prompt.length,
        weight_version: front.label(),
        num_retractions: 0,
        ...(request.logprobs && {
          input_token_logprobs: request.prompt_logprobs ? inputOf(facts) : [],
          output_token_logprobs: scored(start, end),
          output_token_logprobs_length: end,
          ...(request.top_logprobs > 0 && { output_top_logprobs: topsOf(start, end) }),
        }),
        reasoning_tokens: 0,
        completion_tokens: end,
        cached_tokens: 0,
        ...(finish_reason !== null && { weight_versions: spans }),
        cached_tokens_details: null,
        dp_rank: null,
      },
    };
  };
  /** A pause has put it back among those that wait: it says its last id and all logprobs once more. */
  const abortOf = (piece: Piece): object => {
    const { meta_info, ...body } = bodyOf(piece, 0);
    const output_ids = body.output_ids.slice(settings.incremental_streaming ? -1 : 0);
    const finish_reason = { type: 'abort', message: 'Abort in waiting queue' };
    const rest = { ...meta_info, finish_reason, prompt_tokens: undefined };
    return { ...body, output_ids, meta_info: rest };
  };
  return {
    aborts_empty: true,
    chunk: (piece) => {
      const start = settings.incremental_streaming ? piece.start : 0;
      const waits = piece.finish_reason === 'abort' && front.isRetracted();
      const body = waits ? abortOf(piece) : bodyOf(piece, start);
      return `data: ${JSON.stringify(body)}\n\n`;
    },
    usage: () => '',
    whole: (piece) => JSON.stringify(bodyOf(piece, 0)),
  };
}

/** As vLLM's are by id: none for the first token. */
function inputOf({ request, promptLogprobs }: WireFacts): unknown[] {
  const told = promptLogprobs() as ({ [id: string]: { logprob: number } } | null)[];
  return told.map((one, i) => {
    const id = request.prompt[i] ?? 0;
    return [one?.[String(id)]?.logprob ?? null, id, null];
  });
}
