/**
 * The simulator's tokenizer: ids 0 to 255 are the bytes of UTF-8, the special tokens follow.
 * No merges, so every text round-trips and a character may be split over up to four tokens.
 */

export const IM_START = 256;
/** The end of sequence. */
export const IM_END = 257;
export const END_OF_TEXT = 258;
/** Stands for a picture; the policy never says it. */
export const PICTURE = 259;
export const VOCABULARY_SIZE = 260;

const SPECIAL_TEXTS: ReadonlyMap<number, string> = new Map([
  [IM_START, '<|im_start|>'],
  [IM_END, '<|im_end|>'],
  [END_OF_TEXT, '<|endoftext|>'],
  [PICTURE, '<|image_pad|>'],
]);
const SPECIAL_IDS: ReadonlyMap<string, number> = new Map(
  Array.from(SPECIAL_TEXTS, ([id, text]) => [text, id]),
);
const SPECIAL_TEXT = /(<\|im_start\|>|<\|im_end\|>|<\|endoftext\|>|<\|image_pad\|>)/;
export const PICTURE_TEXT = '<|image_pad|>';

export function isSpecial(id: number): boolean {
  return id >= IM_START;
}

/** The text of special tokens becomes their ids, as in vLLM. */
export function encode(text: string): number[] {
  if (!text.includes('<|')) return Array.from(Buffer.from(text));
  const ids: number[] = [];
  for (const part of text.split(SPECIAL_TEXT)) {
    const special = SPECIAL_IDS.get(part);
    if (special !== undefined) ids.push(special);
    else for (const byte of Buffer.from(part)) ids.push(byte);
  }
  return ids;
}

export interface DecodeOptions {
  /** Leaves special tokens out; otherwise they appear as text. */
  skip_special_tokens: boolean;
}

/** Bytes that are not UTF-8 become U+FFFD; ids outside the vocabulary vanish. */
export function decode(ids: readonly number[], { skip_special_tokens }: DecodeOptions): string {
  let text = '';
  let bytes: number[] = [];
  for (const id of ids) {
    if (id < IM_START) {
      bytes.push(id);
    } else if (!skip_special_tokens && id < VOCABULARY_SIZE) {
      text += Buffer.from(bytes).toString() + specialText(id);
      bytes = [];
    }
  }
  return text + Buffer.from(bytes).toString();
}

function specialText(id: number): string {
  return SPECIAL_TEXTS.get(id) ?? '';
}

/**
 * The tokens' names as `/tokenize` gives them with `return_token_strs`: bytes as the printable characters that
 * byte-level vocabularies use, a space as Ġ (capture 091).
 */
export function vocabularyStrings(ids: readonly number[]): string[] {
  return ids.map((id) => (isSpecial(id) ? specialText(id) : byteName(id)));
}

/** GPT-2's table: printable Latin-1 bytes represent themselves, and the other 68 are counted up from U+0100. */
function byteName(byte: number): string {
  if (byte <= 0x20) return String.fromCharCode(0x100 + byte);
  if (byte >= 0x7f && byte <= 0xa0) return String.fromCharCode(0x121 + byte - 0x7f);
  if (byte === 0xad) return String.fromCharCode(0x143);
  return String.fromCharCode(byte);
}

/**
 * What each generated token is called in `logprobs.tokens`: a byte that completes a character is that character,
 * the bytes before it are '' (capture 183).
 */
export function logprobStrings(ids: readonly number[]): string[] {
  let fragment: number[] = [];
  return ids.map((id) => {
    if (id < 0x80) {
      fragment = [];
      return String.fromCharCode(id);
    }
    if (isSpecial(id)) {
      fragment = [];
      return specialText(id);
    }
    // A lead byte opens a character; an earlier incomplete one will never be completed.
    if (id >= 0xc0) fragment = [];
    fragment.push(id);
    const text = Buffer.from(fragment).toString();
    if (text.endsWith('\uFFFD')) return '';
    fragment = [];
    return text;
  });
}

/** Turns ids into text as they come: text is held back while it ends in an unfinished character. */
export interface TextStream {
  /** The text that became certain with this token. */
  push(id: number): string;
}

export interface TextStreamOptions extends DecodeOptions {
  prompt: readonly number[];
}

/**
 * If the prompt itself ends inside a character, all of the prompt's text comes out with the first certain character of
 * the answer. vLLM behaves this way.
 */
export function createTextStream({ prompt, skip_special_tokens }: TextStreamOptions): TextStream {
  const options = { skip_special_tokens };
  let pending: number[] = endsInsideCharacter(prompt) ? [...prompt] : [];
  return {
    push(id) {
      if (pending.length === 0 && id < 0x80) return String.fromCharCode(id);
      pending.push(id);
      const text = decode(pending, options);
      if (text.endsWith('\uFFFD')) return '';
      pending = [];
      return text;
    },
  };
}

/** A character has at most four bytes, so the last four tokens are enough. */
function endsInsideCharacter(ids: readonly number[]): boolean {
  return decode(ids.slice(-4), { skip_special_tokens: true }).endsWith('\uFFFD');
}
