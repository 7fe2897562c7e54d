import type { Generation, Top } from '../policy/policy.js';
import { createTextStream, IM_END, logprobStrings, type TextStream } from '../policy/tokenizer.js';

/** The part of a request that determines where an answer ends and its text. */
export interface AnswerOptions {
  prompt: readonly number[];
  max_tokens: number;
  min_tokens: number;
  ignore_eos: boolean;
  stop: readonly string[];
  stop_token_ids: readonly number[];
  include_stop_str_in_output: boolean;
  skip_special_tokens: boolean;
  /** Names tokens `token_id:N` in logprobs. */
  return_tokens_as_token_ids: boolean;
}

/** A whole answer, however many chunks it takes. */
export interface Answer {
  token_ids: number[];
  logprobs: number[];
  /** The tokens' names in logprobs, and where each begins, in characters of all names before. */
  names: string[];
  name_offsets: number[];
  /** For each token, if requested; by name. */
  tops: [name: string, logprob: number][][];
  /** The same by id, as they were generated. */
  generated_tops?: Top[][];
  text: string;
  /** How much of the text is sent after token i: it lags for stop strings and unfinished characters. */
  text_ends: number[];
  finish_reason: 'stop' | 'length';
  /** The matched stop string or stop token id; null for the end of sequence. */
  stop_reason: string | number | null;
}

/** The answer of a request that was cut off before it ran. */
export const NO_ANSWER: Answer = {
  token_ids: [],
  logprobs: [],
  names: [],
  name_offsets: [],
  tops: [],
  text: '',
  text_ends: [],
  finish_reason: 'length',
  stop_reason: null,
};

type Ending = Pick<Answer, 'finish_reason' | 'stop_reason'>;

const CUT_OFF: Ending = { finish_reason: 'length', stop_reason: null };

/** Cuts a generation where vLLM would stop, and adds its text. */
export function assembleAnswer(generation: Generation, options: AnswerOptions): Answer {
  const reader = createReader(options);
  const text_ends: number[] = [];
  let ending: Ending | null = null;
  for (const [i, id] of generation.token_ids.entries()) {
    ending = reader.read(id) ?? (i === generation.token_ids.length - 1 ? CUT_OFF : null);
    text_ends.push(reader.certain(ending !== null));
    if (ending !== null) break;
  }
  const token_ids = generation.token_ids.slice(0, text_ends.length);
  const namesOf = (ids: readonly number[]): string[] =>
    options.return_tokens_as_token_ids ? ids.map((id) => `token_id:${id}`) : logprobStrings(ids);
  const topOf = ([id, logprob]: Top): [string, number] => [namesOf([id])[0] ?? '', logprob];
  const names = namesOf(token_ids);
  return {
    token_ids,
    logprobs: generation.logprobs.slice(0, text_ends.length),
    names,
    name_offsets: offsetsOf(names),
    tops: (generation.tops ?? []).slice(0, text_ends.length).map((top) => top.map(topOf)),
    ...(generation.tops !== undefined && { generated_tops: generation.tops }),
    text: reader.text(),
    text_ends,
    ...(ending ?? CUT_OFF),
  };
}

function createReader(options: AnswerOptions) {
  const { stop, include_stop_str_in_output, min_tokens } = options;
  const stream = createTextStream(options);
  const held = include_stop_str_in_output
    ? 0
    : Math.max(0, ...stop.map((text) => charactersIn(text) - 1));
  let text = '';
  let certain = 0;
  let count = 0;
  return {
    text: () => text,
    /** How much of the text may be sent; all of it when the answer is finished. */
    certain(finished: boolean): number {
      certain = finished ? text.length : Math.max(certain, stepBack(text, held));
      return certain;
    },
    read(id: number): Ending | null {
      count += 1;
      const ending = endingOf(id, { count, options });
      const before = text.length;
      text += textOf(id, { ending, include: include_stop_str_in_output, stream });
      if (stop.length === 0 || count <= min_tokens) return ending;
      const match = findStop(text, { before, options });
      if (match === null) return ending;
      text = text.slice(0, match.end);
      return { finish_reason: 'stop', stop_reason: match.stop };
    },
  };
}

/** A token that stops the answer is shown only with `include_stop_str_in_output` (captures 021, 023, 027). */
function textOf(
  id: number,
  { ending, include, stream }: { ending: Ending | null; include: boolean; stream: TextStream },
): string {
  return ending?.finish_reason === 'stop' && !include ? '' : stream.push(id);
}

function endingOf(
  id: number,
  { count, options }: { count: number; options: AnswerOptions },
): Ending | null {
  const { min_tokens, ignore_eos, stop_token_ids, max_tokens } = options;
  if (count >= min_tokens) {
    if (id === IM_END && !ignore_eos) return { finish_reason: 'stop', stop_reason: null };
    if (stop_token_ids.includes(id)) return { finish_reason: 'stop', stop_reason: id };
  }
  return count >= max_tokens ? CUT_OFF : null;
}

/** The first stop string, in the request's order, that ends in the new text, and where to cut. */
function findStop(
  text: string,
  { before, options }: { before: number; options: AnswerOptions },
): { stop: string; end: number } | null {
  for (const stop of options.stop) {
    const at = text.indexOf(stop, Math.max(0, before - stop.length + 1));
    if (at !== -1) {
      return { stop, end: options.include_stop_str_in_output ? at + stop.length : at };
    }
  }
  return null;
}

/** The length of `text` without its last characters; a surrogate pair is one. */
function stepBack(text: string, characters: number): number {
  let end = text.length;
  for (let i = 0; i < characters && end > 0; i++) {
    const code = text.charCodeAt(end - 1);
    end -= code >= 0xdc00 && code <= 0xdfff && end > 1 ? 2 : 1;
  }
  return end;
}

function offsetsOf(names: readonly string[]): number[] {
  let offset = 0;
  return names.map((name) => {
    const start = offset;
    offset += charactersIn(name);
    return start;
  });
}

function charactersIn(text: string): number {
  return text.length === 1 ? 1 : Array.from(text).length;
}
