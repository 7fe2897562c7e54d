import { renderedText, visibleText } from './characters.js';

/** One decided answer of the engine. */
export interface Completion {
  id: string;
  model: string;
  prompt_ids: readonly number[];
  token_ids: readonly number[];
  /** null: none were requested. */
  logprobs: readonly number[] | null;
  finish_reason: 'stop' | 'length';
  stop_reason: string | null;
  /** The text lags the ids by up to one less, as vLLM holds back what may become a stop string. */
  longest_stop: number;
}

export interface StreamEvent {
  bytes: Buffer;
  /** Tokens sent before this event. */
  before: number;
  /** It has the finish reason. */
  isLastChoice: boolean;
}

/** vLLM's events (captures 005, 015, 020): one to four tokens each, with their count, then usage, then `[DONE]`. */
export function* eventsOf(
  completion: Completion,
  random: () => number,
): Generator<StreamEvent, void, void> {
  const { token_ids, longest_stop, prompt_ids } = completion;
  const characters = token_ids.map(visibleText);
  let sent = 0;
  let shown = 0;
  const usage = () => ({
    prompt_tokens: prompt_ids.length,
    total_tokens: prompt_ids.length + sent,
    completion_tokens: sent,
  });
  do {
    const before = sent;
    sent = Math.min(token_ids.length, sent + 1 + Math.floor(random() * 4));
    const isLast = sent === token_ids.length;
    const show = isLast ? sent : Math.max(shown, sent - Math.max(0, longest_stop - 1));
    const text = characters.slice(shown, show).join('');
    shown = show;
    const choice = choiceOf(completion, { before, sent, isLast, text });
    const event = { choices: [choice], usage: usage() };
    yield { bytes: eventOf(completion, event), before, isLastChoice: isLast };
  } while (sent < token_ids.length);
  const end = { choices: [], usage: usage() };
  yield { bytes: eventOf(completion, end), before: sent, isLastChoice: false };
  yield { bytes: Buffer.from('data: [DONE]\n\n'), before: sent, isLastChoice: false };
}

function choiceOf(
  { prompt_ids, token_ids, logprobs, finish_reason, stop_reason }: Completion,
  { before, sent, isLast, text }: { before: number; sent: number; isLast: boolean; text: string },
): object {
  const ids = token_ids.slice(before, sent);
  const tokens = ids.map(renderedText);
  const token_logprobs = logprobs?.slice(before, sent);
  return {
    index: 0,
    text,
    logprobs: token_logprobs === undefined ? null : { tokens, token_logprobs },
    finish_reason: isLast ? finish_reason : null,
    stop_reason: isLast ? stop_reason : null,
    prompt_token_ids: before === 0 ? prompt_ids : null,
    token_ids: ids,
  };
}

function eventOf({ id, model }: Completion, body: object): Buffer {
  const event = { id, object: 'text_completion', created: 0, model, ...body };
  return Buffer.from(`data: ${JSON.stringify(event)}\n\n`);
}

/** The bytes in pieces that end anywhere: inside an event, inside a character of several bytes. */
export function* piecesOf(bytes: Buffer, random: () => number): Generator<Buffer, void, void> {
  for (let at = 0; at < bytes.length;) {
    const next = at + 1 + Math.floor(random() * 400);
    yield bytes.subarray(at, next);
    at = next;
  }
}

/** Numbers in [0, 1) that depend only on the text, so a failing run repeats. */
export function randomOf(text: string): () => number {
  let state = 2166136261;
  for (const character of text) state = Math.imul(state ^ character.codePointAt(0)!, 16777619);
  return () => {
    state = Math.imul(state ^ (state >>> 15), 2246822519) + 0x9e3779b9;
    return ((state ^ (state >>> 13)) >>> 0) / 2 ** 32;
  };
}
