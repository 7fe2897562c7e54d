import { readAnswer, callId } from '../../model/calls/parsers/read-answer.js';
import { withheld } from '../../model/calls/parsers/thought.js';
import type { JournalCall } from '../../model/journal/calls.js';
import type { Sampled } from '../../model/journal/open-answers.js';
import { openAnswer } from '../../model/journal/open-answers.js';
import { canContinue, withoutOpenEnd } from '../../sampling/seam.js';
import type { PlayedAgent } from '../agent-session.js';
import type { News } from '../news.js';
import { NOTHING } from './pieces.js';
import type { LineOf } from '../../model/journal.js';

export type Telling = ReturnType<typeof createTelling>;

/** How many of an answer's tokens may be said: those that are labelled, if it is streamed and can be continued. */
export function sayable(
  { token_ids, segments }: Readonly<Sampled>,
  { line, generation }: { line: Pick<JournalCall['line'], 'stream'>; generation: Generation },
): number {
  if (!line.stream || !canContinue(generation)) return 0;
  const pending = segments.find(({ version_source }) => version_source === 'pending');
  return pending?.start ?? token_ids.length;
}
type Generation = Parameters<typeof canContinue>[0];

export interface Told {
  playing: Pick<PlayedAgent, 'journal' | 'settings' | 'detokenize' | 'eos_ids'>;
  turn: number;
  stops: readonly string[];
  generation: Generation & { stop_token_ids: readonly number[] };
  news: News;
}

/** What of a call's answer may be said by now: for all its connections, however many there are. */
export function createTelling(told: Told) {
  const { playing, turn, news, stops } = told;
  const { journal, settings } = playing;
  const { trajectory } = journal;
  const text = createAnswerText(playing.detokenize);
  const streamed = createStreamedText(openAnswer(trajectory, turn).token_ids.length);
  const ids = (): readonly number[] => trajectory.calls[turn]?.sampled.token_ids ?? [];
  let asked: Promise<unknown> = Promise.resolve();
  let growing = NOTHING;
  let said = '';
  let count = 0;
  /** One question after the other, because each text extends the one before. */
  const decoded = (upTo: number): Promise<string> => {
    const made = asked.then(() => text.upTo(ids(), upTo));
    asked = made.catch(() => undefined);
    return made;
  };
  /** The text of the whole answer's first tokens: all of them, or all but the one that ended it. */
  const textOf = async (upTo: number): Promise<string> => {
    const all = ids();
    const whole = streamed.upTo(all.length);
    if (whole === null) return await decoded(upTo);
    const end = upTo < all.length ? await playing.detokenize(all.slice(upTo)) : '';
    return withoutOpenEnd(whole.endsWith(end) ? whole.slice(0, whole.length - end.length) : whole);
  };
  const saidBy = async (upTo: number): Promise<string> => {
    const whole = streamed.upTo(upTo);
    return whole === null ? await decoded(upTo) : withoutOpenEnd(whole);
  };
  const lookOn = async (): Promise<void> => {
    for (let now = shown(told); now > count; now = shown(told)) {
      await journal.stored();
      const next = beforeStop(await saidBy(now), stops);
      count = now;
      if (!next.startsWith(said) || next === said) continue;
      said = next;
      const one_tool_call = trajectory.calls[turn]?.line.asked.one_tool_call === true;
      const reading = { ...settings, one_tool_call, ended: false };
      const { calls, reasoning = '', ...read } = readAnswer(said, reading);
      const named = calls.map((call, k) => ({ id: callId(turn, k), ...call }));
      growing = { ...read, reasoning, calls: named, ended: false };
      news.tell();
    }
  };
  let looking: Promise<void> | null = null;
  return {
    heard: streamed.heard,
    resumes: streamed.resumes,
    textOf,
    said: () => said,
    reading: () => growing,
    look: (): void => {
      // An engine that does not answer is asked again with the next tokens, or at the end.
      looking ??= lookOn()
        .catch(() => undefined)
        .finally(() => (looking = null));
    },
  };
}

/** Without one that ends the answer. */
function shown({ playing, turn, generation }: Told): number {
  const { trajectory } = playing.journal;
  const call = trajectory.calls[turn];
  if (call === undefined || call.answer !== null) return 0;
  const { sampled: open } = call;
  const most = sayable(open, { line: call.line, generation });
  const last = open.token_ids[most - 1];
  const isEnd =
    most === open.token_ids.length &&
    last !== undefined &&
    (open.finish?.finish_reason === 'stop' ||
      generation.stop_token_ids.includes(last) ||
      playing.eos_ids().has(last));
  return isEnd ? most - 1 : most;
}

type Chunk = Pick<LineOf<'chunk'>, 'offset' | 'token_ids' | 'text'>;

interface Heard {
  text: string;
  /** How long the text was when so many tokens were there. */
  marks: { count: number; length: number }[];
}

/**
 * The text of an answer as its one request has streamed it. It lags tokens, so what it says of the first tokens is
 * their text or a beginning of it, and no decoder is asked. `count`: tokens that are there already.
 */
export function createStreamedText(count: number) {
  let total = count;
  let heard: Heard | null = null;
  return {
    /** A line of the answer, as it is appended. */
    heard: ({ offset, token_ids, text }: Chunk): void => {
      const end = offset + token_ids.length;
      // The same tokens with another version.
      if (offset < total && end === total) return;
      if (end === 0 || total === 0) heard = { text: '', marks: [] };
      else if (offset !== total) heard = null;
      total = end;
      if (heard === null) return;
      heard.text += text;
      heard.marks.push({ count: end, length: heard.text.length });
    },
    /** Another request goes on with the tokens that are there. Text that the first one held back is lost. */
    resumes: (): void => {
      if (total > 0) heard = null;
    },
    /** The text of the first `most` tokens; null: several requests have sampled them, or the engine says no text. */
    upTo: (most: number): string | null => {
      if (heard === null || heard.text === '') return null;
      const mark = heard.marks.findLast(({ count: at }) => at <= most);
      return heard.text.slice(0, mark?.length ?? 0);
    },
  };
}

/** Longer beginnings are not decoded again. */
const MOST_AGAIN = 256;
/** Decoders may write the first of some tokens in another way than behind others. */
const OVERLAP = 4;

/** The text of an answer's tokens, with special tokens shown, as an engine's decoder writes it. */
function createAnswerText(detokenize: (token_ids: readonly number[]) => Promise<string>) {
  /** The text of the tokens before `next`, and how much of what follows `from` is part of it. */
  let begun = { from: 0, next: 0, text: '', overlap: 0 };
  return {
    /** The text of the first `count` tokens, up to their last whole character. One question at a time. */
    upTo: async (ids: readonly number[], count: number): Promise<string> => {
      if (count === begun.next) return begun.text;
      // Tokens were dropped.
      if (count < begun.next) begun = { from: 0, next: 0, text: '', overlap: 0 };
      const decoded = count === begun.from ? '' : await detokenize(ids.slice(begun.from, count));
      const text = begun.text + decoded.slice(begun.overlap);
      const whole = withoutOpenEnd(text);
      if (whole === text && count - begun.from > MOST_AGAIN) {
        const from = count - OVERLAP;
        const overlap = (await detokenize(ids.slice(from, count))).length;
        begun = { from, next: count, text, overlap };
      }
      return whole;
    },
  };
}

/** A text before the first stop string, without an end that may become one. */
export function beforeStop(text: string, stops: readonly string[]): string {
  let end = text.length;
  for (const stop of stops) {
    const at = text.indexOf(stop);
    if (at !== -1) end = Math.min(end, at);
  }
  if (end < text.length) return text.slice(0, end);
  return text.slice(0, text.length - Math.max(0, ...stops.map((stop) => withheld(text, stop))));
}
