import type { ToolCall } from '../../model/calls/message.js';

/** How a stream says an answer, whenever its tokens came: who asks again gets the same events. */

/** What a stream has not sent yet; a tool call is sent whole. */
export interface News {
  reasoning?: string;
  content: string;
  /** With the number of the first among the answer's. */
  tool_calls: { from: number; calls: readonly ToolCall[] };
}

/** What may be said of an answer so far. Each later reading begins with it. */
export interface Reading {
  reasoning: string;
  content: string;
  calls: readonly ToolCall[];
  /** How much of the content stands before each call; absent: all of it. */
  calls_at?: readonly number[];
  ended: boolean;
}

export const NOTHING: Reading = { reasoning: '', content: '', calls: [], ended: false };
export const BEGINNING = { reasoning: 0, content: 0, calls: 0 };
type Place = typeof BEGINNING;

/** What a stream at this place sends next, and where it is then. */
export function piecesFrom(
  { reasoning, content, calls, ended, ...reading }: Reading,
  from: Place,
): { news: News[]; to: Place } {
  const news: News[] = [];
  const to = { ...from };
  const none = { content: '', tool_calls: { from: 0, calls: [] } };
  const isBehind = ended || content !== '' || calls.length > 0;
  for (const end of endsIn(reasoning, { from: to.reasoning, ended: isBehind })) {
    news.push({ ...none, reasoning: reasoning.slice(to.reasoning, end) });
    to.reasoning = end;
  }
  for (;;) {
    const call = calls[to.calls];
    const at =
      call === undefined ? content.length : (reading.calls_at?.[to.calls] ?? content.length);
    const part = content.slice(0, at);
    for (const end of endsIn(part, { from: to.content, ended: ended || call !== undefined })) {
      news.push({ ...none, content: part.slice(to.content, end) });
      to.content = end;
    }
    if (call === undefined) return { news, to };
    news.push({ ...none, tool_calls: { from: to.calls, calls: [call] } });
    to.calls += 1;
  }
}

/** A first piece is a character, so that the first token shows at once. */
const SHORT = 8;
const LONG = 24;

/** Where the pieces of a text end. A piece whose end depends on later text waits for that text. */
function* endsIn(
  text: string,
  { from, ended }: { from: number; ended: boolean },
): Generator<number, void, void> {
  for (let start = from; start < text.length;) {
    const end = endOf(text, start);
    if (end === null && !ended) return;
    start = end ?? text.length;
    yield start;
  }
}

/** Behind the first blank that follows some characters, or after many of them; never inside a character. */
function endOf(text: string, start: number): number | null {
  const most = start === 0 ? 1 : LONG;
  for (let at = start + (start === 0 ? 1 : SHORT); at < start + most; at++) {
    if (at > text.length) return null;
    if (isBlank(text.charCodeAt(at - 1))) return at;
  }
  const end = start + most;
  if (end > text.length) return null;
  return isFirstHalf(text.charCodeAt(end - 1)) ? (end + 1 > text.length ? null : end + 1) : end;
}

const isBlank = (code: number): boolean => code === 0x20 || (code >= 0x09 && code <= 0x0d);
const isFirstHalf = (code: number): boolean => code >= 0xd800 && code < 0xdc00;
