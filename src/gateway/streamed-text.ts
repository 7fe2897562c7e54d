import type { LineOf } from '../model/journal.js';

/**
 * The text of an answer as its one request has streamed it. It lags tokens, so what it says of the first tokens is
 * their text or a beginning of it, and no decoder is asked.
 */
export interface StreamedText {
  /** A line of the answer, as it is appended. */
  heard: (chunk: Chunk) => void;
  /** Another request goes on with the tokens that are there. Text that the first one held back is lost. */
  resumes: () => void;
  /** Of the first `count` tokens; null: several requests have sampled them, or the engine says no text. */
  upTo: (count: number) => string | null;
}
type Chunk = Pick<LineOf<'chunk'>, 'offset' | 'token_ids' | 'text'>;

interface Heard {
  text: string;
  /** How long the text was when so many tokens were there. */
  marks: { count: number; length: number }[];
}

/** `count`: tokens that are there already. */
export function createStreamedText(count: number): StreamedText {
  let total = count;
  let heard: Heard | null = null;
  return {
    heard: ({ offset, token_ids, text }) => {
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
    resumes: () => {
      if (total > 0) heard = null;
    },
    upTo: (most) => {
      if (heard === null || heard.text === '') return null;
      const mark = heard.marks.findLast(({ count: at }) => at <= most);
      return heard.text.slice(0, mark?.length ?? 0);
    },
  };
}
