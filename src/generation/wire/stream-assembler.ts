import { z } from 'zod';
import type { Fault } from '../../model/faults.js';
import { preview, problemsOf } from '../../model/problems.js';
import type { Finish, TopLogprobs } from '../../model/journal.js';
import { isLogprob, LOGPROB_RANGE, MINUS_INFINITY } from '../../model/logprob.js';
import { isTokenId } from '../../model/token-id.js';
import { listOf, TokenIds } from '../../model/untrusted.js';
import type { Delta, GenerationRequest, VersionSpan } from '../generation-service.js';
import { CutOff, Miscount } from '../generation-service.js';
import { WeightLabel } from './ask.js';
import type { CallSite } from './wire-faults.js';
import { protocolFault, unavailableFault } from './wire-faults.js';

const Usage = z.object({
  prompt_tokens: z.number(),
  completion_tokens: z.number().nullish(),
});
type Usage = z.infer<typeof Usage>;

/**
 * One event of a `/v1/completions` stream, into whose shape other wires are converted. Unread fields are dropped, because
 * they differ between versions. The prompt echo and the logprobs are only checked to be arrays; later code checks their
 * elements.
 */
const CompletionChunk = z.object({
  choices: z.array(
    z.object({
      index: z.number(),
      text: z.string(),
      token_ids: TokenIds.nullish(),
      prompt_token_ids: z.custom<readonly unknown[]>(Array.isArray, 'expected an array').nullish(),
      logprobs: z
        .object({
          token_logprobs: z.custom<readonly unknown[]>(Array.isArray, 'expected an array'),
          top_logprobs: z.custom<readonly unknown[]>(Array.isArray, 'expected an array').nullish(),
        })
        .nullish(),
      finish_reason: z.string().nullish(),
      /** From `/inference/v1/generate`, only on the last chunk. */
      weight_versions: listOf(
        z.object({ version: WeightLabel, start: z.int(), end: z.int() }),
      ).nullish(),
      stop_reason: z.union([z.string(), z.number()]).nullish(),
    }),
  ),
  usage: Usage.nullish(),
});
type Choice = z.infer<typeof CompletionChunk>['choices'][number];

/** What the stream is checked against. */
export interface SentRequest extends Pick<
  GenerationRequest,
  'prompt_ids' | 'pictures' | 'max_tokens' | 'logprobs' | 'top_logprobs'
> {
  site: CallSite;
}

/** What is known after some chunks. Tokens are not kept, so each chunk costs only its own size. */
export interface StreamState {
  readonly sent: SentRequest;
  readonly token_count: number;
  readonly last_id: number | null;
  readonly echo_seen: boolean;
  readonly finish_reason: string | null;
  /** May be 0: a token id (capture 029). */
  readonly stop_reason: string | number | null;
  /** The latest; servers may repeat it in each chunk (capture 005). */
  readonly usage: Usage | null;
  readonly spans: VersionSpan[] | null;
}

export function startStream(sent: SentRequest): StreamState {
  return {
    sent,
    token_count: 0,
    last_id: null,
    echo_seen: false,
    finish_reason: null,
    stop_reason: null,
    usage: null,
    spans: null,
  };
}

/**
 * Takes one parsed event of the stream. `delta` is null if it had neither ids nor text nor an end. Throws
 * `ProtocolError` if the reply fails a check: its tokens cannot be trained on.
 */
export function assemble(
  state: StreamState,
  chunk: unknown,
): { state: StreamState; delta: Delta | null } {
  const count = choicesOf(chunk);
  if (count > 1) throw violation(state.sent, `expected one choice, got ${count}`);
  const parsed = CompletionChunk.safeParse(chunk);
  if (!parsed.success) throw malformed(state.sent, { error: parsed.error, chunk });
  const { choices, usage } = parsed.data;
  const [choice] = choices;
  if (choice === undefined) {
    if (usage == null) return { state, delta: null };
    if (state.finish_reason !== 'abort') checkCount(state.sent, { ...state, usage });
    return { state: { ...state, usage }, delta: null };
  }
  return takeChoice(state, { choice, usage: usage ?? null });
}

/** First, because zod would make a million reports of a million wrong ids. */
function choicesOf(chunk: unknown): number {
  const { choices } = Object(chunk) as { choices?: unknown };
  return Array.isArray(choices) ? choices.length : 0;
}

/**
 * Whether the latest count is that of the tokens so far: each of them is where it was sampled. Tokens of events that do
 * not count wait for the next one that does.
 */
export const isCounted = ({ usage, token_count }: StreamState): boolean =>
  usage?.completion_tokens === token_count;

/** `usage`: the event's own. */
function takeChoice(
  state: StreamState,
  { choice, usage }: { choice: Choice; usage: Usage | null },
): { state: StreamState; delta: Delta | null } {
  const { sent } = state;
  if (choice.index !== 0) throw violation(sent, `expected choice 0 only, got ${choice.index}`);
  if (state.finish_reason !== null) {
    throw violation(
      sent,
      `expected nothing after finish_reason "${state.finish_reason}", got ${choice.token_ids?.length ?? 0} more ids`,
    );
  }
  if (choice.prompt_token_ids != null) checkEcho(sent, choice.prompt_token_ids);
  // Some of its ids are the engine's own making, so it must say which it has.
  else if ((sent.pictures?.length ?? 0) > 0 && !state.echo_seen)
    throw violation(sent, 'expected the ids of the prompt with its pictures first, got none');
  const token_ids = choice.token_ids;
  if (token_ids == null) {
    throw violation(sent, 'expected token_ids (return_token_ids was sent), got none');
  }
  const token_count = state.token_count + token_ids.length;
  checkCount(sent, { usage, token_count });
  if (token_count > sent.max_tokens) {
    throw violation(sent, `expected at most ${sent.max_tokens} tokens, got ${token_count}`);
  }
  const logprobs = sent.logprobs ? checkedLogprobs(state, choice) : [];
  const tokens = { token_ids, logprobs, text: choice.text };
  return {
    state: {
      sent,
      token_count,
      last_id: token_ids.at(-1) ?? state.last_id,
      echo_seen: state.echo_seen || choice.prompt_token_ids != null,
      finish_reason: choice.finish_reason ?? null,
      stop_reason: choice.stop_reason ?? null,
      usage: usage ?? state.usage,
      // Spans without tokens say nothing.
      spans: choice.weight_versions?.filter(({ start, end }) => start !== end) ?? null,
    },
    delta: deltaOf(
      choice,
      sent.top_logprobs > 0 ? { ...tokens, top_logprobs: checkedTops(state, choice) } : tokens,
    ),
  };
}

/** An event before this one was lost or came twice, or this one did, or they changed places. */
function checkCount(
  sent: SentRequest,
  { usage, token_count }: Pick<StreamState, 'usage' | 'token_count'>,
): void {
  if (usage?.completion_tokens != null && usage.completion_tokens !== token_count)
    throw miscount(sent, { usage, token_count });
}

function deltaOf({ finish_reason, stop_reason }: Choice, tokens: Delta): Delta | null {
  if (finish_reason === 'stop' || finish_reason === 'length')
    return { ...tokens, finish: { finish_reason, stop_reason: stop_reason ?? null } };
  return tokens.token_ids.length === 0 && tokens.text === '' ? null : tokens;
}

function checkedLogprobs(state: StreamState, choice: Choice): number[] {
  const got = choice.logprobs?.token_logprobs ?? [];
  const count = choice.token_ids?.length ?? 0;
  if (got.length !== count) {
    const what = choice.logprobs == null ? 'none (logprobs were asked for)' : `${got.length}`;
    throw violation(state.sent, `expected ${count} logprobs for ${count} ids, got ${what}`);
  }
  return got.map((logprob, i) => {
    if (isLogprob(logprob)) return withoutNoise(logprob);
    throw violation(
      state.sent,
      `logprob of token ${state.token_count + i}: expected ${LOGPROB_RANGE}, got ${preview(logprob)}`,
    );
  });
}

/** Above 0 there is only rounding. */
const withoutNoise = (logprob: number): number => (logprob < 0 ? logprob : 0);

/**
 * The likeliest ids of each token. Ids without probability are left out; the sampled token may come after the others.
 */
function checkedTops(state: StreamState, choice: Choice): TopLogprobs {
  const { sent, token_count } = state;
  const got = choice.logprobs?.top_logprobs ?? [];
  const count = choice.token_ids?.length ?? 0;
  if (got.length !== count)
    throw violation(sent, `expected ${count} top_logprobs for ${count} ids, got ${got.length}`);
  return got.map((top, i) => {
    const named = Object.entries(Object(top) as Record<string, unknown>).map(
      ([name, logprob]): [unknown, unknown] => [/^token_id:(\d+)$/.exec(name)?.[1], logprob],
    );
    const likely = named.filter(([, logprob]) => logprob !== MINUS_INFINITY);
    if (likely.length === 0 || !likely.every(isTop)) {
      throw violation(
        sent,
        `top_logprobs of token ${token_count + i}: expected {"token_id:<id>": logprob, …}, got ${preview(top)}`,
      );
    }
    return likely
      .map(([id, logprob]): [number, number] => [Number(id), withoutNoise(Number(logprob))])
      .sort(([, a], [, b]) => b - a)
      .slice(0, sent.top_logprobs);
  });
}

const isTop = ([id, logprob]: [unknown, unknown]): boolean =>
  id !== undefined && isTokenId(Number(id)) && isLogprob(logprob);

/** Another prompt than the one sent: a truncating server, or a router that tokenises again. */
function checkEcho(sent: SentRequest, echo: readonly unknown[]): void {
  const { prompt_ids } = sent;
  if (echo.length !== prompt_ids.length) {
    throw violation(sent, `prompt echo: expected ${prompt_ids.length} ids, got ${echo.length}`);
  }
  for (let i = 0; i < echo.length; i++) {
    if (echo[i] !== prompt_ids[i]) {
      throw violation(
        sent,
        `prompt echo: expected id ${prompt_ids[i] ?? 'none'} at ${i}, got ${preview(echo[i])}`,
      );
    }
  }
}

/**
 * Judges an ended stream. Zero tokens with a finish reason are a valid, empty generation. Without a finish reason the
 * engine was aborted or cut off (captures 146, 212), since `[DONE]` comes in any case. Throws `GenerationUnavailable`
 * or `ProtocolError`.
 */
export function finishStream(state: StreamState): Finish {
  const { sent, finish_reason, stop_reason, token_count, usage } = state;
  if (finish_reason === null) {
    const when = token_count === 0 ? 'before its first token' : `after ${token_count} tokens`;
    throw unavailableFault(`the stream ended ${when} without a finish reason`, sent.site);
  }
  if (finish_reason === 'abort') throw cutOff(state);
  if (finish_reason !== 'stop' && finish_reason !== 'length') {
    throw violation(sent, `expected finish_reason "stop" or "length", got "${finish_reason}"`);
  }
  if (typeof stop_reason === 'number' && stop_reason !== state.last_id)
    throw violation(
      sent,
      `expected the last id to be ${stop_reason}, the stop token that ended it, got ${state.last_id ?? 'none'}`,
    );
  if (!state.echo_seen && usage?.prompt_tokens !== sent.prompt_ids.length) {
    throw violation(
      sent,
      `no prompt echo: expected usage.prompt_tokens ${sent.prompt_ids.length}, got ${usage?.prompt_tokens ?? 'none'}`,
    );
  }
  if (!isCounted(state)) throw miscount(sent, { usage, token_count });
  checkSpans(state);
  return { finish_reason, stop_reason };
}

function cutOff(state: StreamState): Fault {
  const { sent, spans, token_count } = state;
  const fault = unavailableFault(
    `the engine aborted the request after ${token_count} tokens`,
    sent.site,
  );
  if (spans === null || !isCounted(state)) return fault;
  checkSpans(state);
  const { type, message, at } = fault;
  return new CutOff({ type, message, ...(at !== null && { at }) }, spans);
}

/** Each token belongs to one span. */
function checkSpans({ sent, spans, token_count }: StreamState): void {
  let covered = 0;
  for (const { start, end } of spans ?? []) {
    if (start !== covered || end < start) break;
    covered = end;
  }
  if (spans !== null && covered !== token_count)
    throw violation(
      sent,
      `expected weight_versions of all ${token_count} tokens, got ${JSON.stringify(spans).slice(0, 200)}`,
    );
}

function malformed(
  sent: SentRequest,
  { error, chunk }: { error: z.ZodError; chunk: unknown },
): Fault {
  const problems = problemsOf(error, chunk).slice(0, 3);
  return violation(sent, problems.map(({ where, what }) => `${where}: ${what}`).join('; '));
}

const miscount = (
  { site }: SentRequest,
  { usage, token_count }: Pick<StreamState, 'usage' | 'token_count'>,
): Fault => {
  const what = `expected usage.completion_tokens ${token_count} (the ids received), got ${usage?.completion_tokens ?? 'none'}`;
  const { type, message, at } = protocolFault(what, site);
  return new Miscount({ type, message, ...(at !== null && { at }) });
};

const violation = ({ site }: SentRequest, what: string): Fault => protocolFault(what, site);
