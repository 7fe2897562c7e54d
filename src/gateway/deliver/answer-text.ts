import { withheld } from '../../model/calls/parsers/thought.js';
import { withoutOpenEnd } from '../../sampling/seam.js';

/** The text of an answer's tokens, with special tokens shown, as an engine's decoder writes it. */

export interface AnswerText {
  /** The text of the first `count` tokens, up to their last whole character. One question at a time. */
  upTo: (ids: readonly number[], count: number) => Promise<string>;
}

/** Longer beginnings are not decoded again. */
const MOST_AGAIN = 256;
/** Decoders may write the first of some tokens in another way than behind others. */
const OVERLAP = 4;

export function createAnswerText(
  detokenize: (token_ids: readonly number[]) => Promise<string>,
): AnswerText {
  /** The text of the tokens before `next`, and how much of what follows `from` is part of it. */
  let begun = { from: 0, next: 0, text: '', overlap: 0 };
  return {
    upTo: async (ids, count) => {
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
