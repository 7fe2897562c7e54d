import type { Answer } from './answer.js';
import type { CompletionRequest } from './completion-request.js';

/** The JSON of completions, key for key as vLLM 0.32 writes it. */

const FINGERPRINT = 'vllm-0.32.0-simulator';

/** A piece of an answer. It is also its end if `finish_reason` is not null. */
export interface Piece {
  /** Tokens from here up to but excluding `end`. */
  start: number;
  end: number;
  finish_reason: 'stop' | 'length' | 'abort' | null;
}

export interface Wire {
  /** A stream that is cut off before its first token has a last chunk, too. */
  aborts_empty?: true;
  /** One SSE event. The first carries the prompt's ids, the last the fingerprint unless a usage event follows. */
  chunk(piece: Piece): string;
  /** The event after the last chunk, or '' if no usage is requested. */
  usage(completion_tokens: number): string;
  /** The body without a stream. */
  whole(piece: Piece): string;
}

export const DONE = 'data: [DONE]\n\n';

/** As Python's `json.dumps` spaces it (capture 190). */
export const IN_BAND_ERROR =
  'data: {"error": {"message": "EngineCore encountered an issue. See stack trace (above) for the root cause.", "type": "InternalServerError", "param": null, "code": 500}}\n\n';

export interface WireFacts {
  /** With its prefix `cmpl-`. */
  id: string;
  model: string;
  request: CompletionRequest;
  answer: Answer;
  /** The prompt as it is echoed. */
  prompt_token_ids: readonly number[];
  /** Which weights sampled the sent tokens; grows. */
  spans: readonly VersionSpan[];
  /** An earlier chunk of this stream had the prompt's ids. */
  isEchoed: boolean;
  /** As vLLM writes them: none for the first token, then by id. */
  promptLogprobs: () => unknown;
}

/** Tokens from `start` up to but excluding `end`, by the engine's label. */
export interface VersionSpan {
  version: string;
  start: number;
  end: number;
}

export function createWire(facts: WireFacts): Wire {
  const { id, model, request, answer } = facts;
  const { return_token_ids, include_usage, continuous_usage_stats } = request;
  const prompt_tokens = request.prompt.length;
  const created = Math.floor(Date.now() / 1000);
  const head = { id, object: 'text_completion', created, model };
  const echo = return_token_ids ? facts.prompt_token_ids : null;
  let echoed = facts.isEchoed;
  const usageOf = (completion_tokens: number): Usage => ({
    prompt_tokens,
    total_tokens: prompt_tokens + completion_tokens,
    completion_tokens,
  });
  const idsOf = ({ start, end }: Piece): number[] | null =>
    return_token_ids ? answer.token_ids.slice(start, end) : null;
  return {
    chunk(piece) {
      const prompt_token_ids = echoed ? null : echo;
      echoed = true;
      const content = contentOf(piece, { answer, request });
      const isLast = piece.finish_reason !== null && !include_usage;
      return event({
        ...head,
        choices: [{ ...content, prompt_token_ids, token_ids: idsOf(piece) }],
        ...(include_usage && continuous_usage_stats ? { usage: usageOf(piece.end) } : {}),
        ...(isLast ? { system_fingerprint: FINGERPRINT } : {}),
      });
    },
    usage(completion_tokens) {
      if (!include_usage) return '';
      const details = { prompt_tokens_details: { cached_tokens: 0 } };
      const usage = { ...usageOf(completion_tokens), ...details };
      return event({ ...head, choices: [], usage, system_fingerprint: FINGERPRINT });
    },
    whole(piece) {
      const content = contentOf(piece, { answer, request });
      return JSON.stringify(
        wholeBody({
          head,
          content,
          token_ids: idsOf(piece),
          echo,
          usage: usageOf(piece.end),
          prompt_logprobs: request.prompt_logprobs ? facts.promptLogprobs() : null,
        }),
      );
    },
  };
}

interface Usage {
  prompt_tokens: number;
  total_tokens: number;
  completion_tokens: number;
}

interface WholeBody {
  head: object;
  content: object;
  token_ids: readonly number[] | null;
  echo: readonly number[] | null;
  usage: Usage;
  prompt_logprobs: unknown;
}

function wholeBody({ head, content, token_ids, echo, usage, prompt_logprobs }: WholeBody): unknown {
  const choice = {
    ...content,
    token_ids,
    prompt_logprobs,
    prompt_token_ids: echo,
    routed_experts: null,
  };
  const prompt_tokens_details = {
    cached_tokens: 0,
    created_cache_tokens: null,
    multimodal_tokens: null,
  };
  return {
    ...head,
    choices: [choice],
    service_tier: null,
    system_fingerprint: FINGERPRINT,
    usage: { ...usage, prompt_tokens_details, completion_tokens_details: null },
    kv_transfer_params: null,
    ec_transfer_params: null,
    metrics: null,
  };
}

function event(value: unknown): string {
  return `data: ${JSON.stringify(value)}\n\n`;
}

function contentOf(
  { start, end, finish_reason }: Piece,
  { answer, request }: Pick<WireFacts, 'answer' | 'request'>,
) {
  const textStart = answer.text_ends[start - 1] ?? 0;
  const textEnd = answer.text_ends[end - 1] ?? 0;
  return {
    index: 0,
    text: answer.text.slice(textStart, textEnd),
    logprobs: request.logprobs ? logprobsOf(answer, { start, end }) : null,
    finish_reason,
    stop_reason: finish_reason === 'stop' ? answer.stop_reason : null,
  };
}

/** For each token its own logprob and, if requested, those of the likeliest. NaN is written as null. */
function logprobsOf(answer: Answer, { start, end }: Pick<Piece, 'start' | 'end'>) {
  const token_logprobs = answer.logprobs.slice(start, end);
  const tokens = answer.names.slice(start, end);
  return {
    text_offset: answer.name_offsets.slice(start, end),
    token_logprobs,
    tokens,
    top_logprobs: tokens.map((token, i) => ({
      ...Object.fromEntries(answer.tops[start + i] ?? []),
      [token]: token_logprobs[i],
    })),
  };
}
