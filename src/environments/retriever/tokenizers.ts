/** A text's terms, in order and with repetitions. */
export type Tokenize = (text: string) => string[];

export const tokenizeAlphanumeric: Tokenize = (text) =>
  text.toLowerCase().match(/[a-z0-9]+/g) ?? [];

/**
 * The tokenizer of bert-base-uncased over a `vocab.txt` (one piece per line): upstream's retriever ranks by its ids.
 * Texts are cleaned, lower-cased and stripped of accents; words are cut at white space, punctuation and CJK
 * characters, then into the longest pieces of the vocabulary from the left.
 */
export function createWordpiece(vocabulary: ReadonlySet<string>): Tokenize {
  let longest = 0;
  for (const piece of vocabulary) longest = Math.max(longest, piece.length);
  const piecesOf = (word: string): string[] => {
    const characters = Array.from(word);
    if (characters.length > LONGEST_WORD) return [UNKNOWN];
    const pieces: string[] = [];
    for (let start = 0; start < characters.length;) {
      const prefix = start === 0 ? '' : '##';
      let end = Math.min(characters.length, start + longest);
      let piece = prefix + characters.slice(start, end).join('');
      while (end > start && !vocabulary.has(piece)) {
        end -= 1;
        piece = prefix + characters.slice(start, end).join('');
      }
      if (end === start) return [UNKNOWN];
      pieces.push(piece);
      start = end;
    }
    return pieces;
  };
  return (text) =>
    text.split(SPECIAL).flatMap((part, i) => {
      // A split with one group returns the group's matches as every other part.
      if (i % 2 === 1 && vocabulary.has(part)) return [part];
      return wordsOf(part).flatMap(piecesOf);
    });
}

const UNKNOWN = '[UNK]';
/** Written out in a text, they count as the tokens themselves. */
const SPECIAL = /(\[(?:UNK|SEP|PAD|CLS|MASK)\])/;
/** Longer words are unknown. */
const LONGEST_WORD = 100;

/** Control characters and similar, except the three that count as white space. Unassigned ones stay. */
const DROPPED = /(?![\t\n\r])[\ufffd\p{Cc}\p{Cf}\p{Co}]/gu;
const SPACES = /[\t\n\r\p{Z}]+/u;
/** All of ASCII that is no letter, digit, control character or space counts as punctuation, including `$` and `^`. */
const PUNCTUATION = /[!-/:-@[-`{-~\p{P}]/u;
const CJK =
  /[\u4e00-\u9fff\u3400-\u4dbf\u{20000}-\u{2a6df}\u{2a700}-\u{2b73f}\u{2b740}-\u{2b81f}\u{2b920}-\u{2ceaf}\uf900-\ufaff\u{2f800}-\u{2fa1f}]/u;
const ALONE = new RegExp(`(${PUNCTUATION.source}|${CJK.source})`, 'gu');

function wordsOf(text: string): string[] {
  return (
    text
      .replace(DROPPED, '')
      .normalize('NFD')
      .replace(/\p{Mn}/gu, '')
      // Letter by letter: at the end of a word JavaScript would make it a final one.
      .replaceAll('Σ', 'σ')
      .toLowerCase()
      .replace(ALONE, ' $1 ')
      .split(SPACES)
      .filter((word) => word !== '')
  );
}
