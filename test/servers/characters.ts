/** The tokenizer of the scripted servers and the recorded cases: a character is a token, its id the code point + 10. */

/** Ids below are special: in a detokenized text they show, in a completion's text they do not. */
export const FIRST_CHARACTER = 10;
export const END_OF_SEQUENCE = 1;
/** What `add_special_tokens` puts in front, so that a caller who should not ask for it is found out. */
const BEGIN_OF_SEQUENCE = 2;

export function encode(text: string, { special = false } = {}): number[] {
  const ids = Array.from(text, (character) => character.codePointAt(0)! + FIRST_CHARACTER);
  return special ? [BEGIN_OF_SEQUENCE, ...ids] : ids;
}

/** As in a completion with `skip_special_tokens`. */
export const visibleText = (id: number): string =>
  id < FIRST_CHARACTER ? '' : String.fromCodePoint(id - FIRST_CHARACTER);

/** As `/detokenize` renders it (capture 098). */
export const renderedText = (id: number): string =>
  id < FIRST_CHARACTER ? `<|special_${id}|>` : visibleText(id);
