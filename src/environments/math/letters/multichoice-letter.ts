import { withoutThoughts } from '../../turn.js';
import { PREFIXES } from '../multichoice.js';
import { afterCorrection, isDeniedBehind, isGivenUp, isNegated, withoutStruck } from './denials.js';
import { JOINED, letterAfter, letterAt, type Read, skipDecoration } from './letter-at.js';
import { preview } from '../../../model/problems.js';
import { rejected } from '../../rejections.js';
import type { GroundTruthCheck } from '../ground-truth.js';
import { groundTruthText, type PureVerifier } from '../verifier.js';

/**
 * The letter that a response answers a multiple choice with. A response says one thing: what comes last counts, of the
 * strongest kind that it has, and nothing before a correction. The ground truth is not looked at, so that naming several
 * letters is no better than one.
 */
export function letterIn(response: string): string | null {
  const said = withoutStruck(withoutThoughts(response.normalize('NFKC')));
  const corrected = afterCorrection(said);
  const text = corrected ?? said;
  const kinds = [stated, chosen, onItsLine, decorated];
  // `B, no, it's C`.
  if (corrected !== null) kinds.push((behind) => letterAfter(behind, { from: 0 }));
  for (const kind of kinds) {
    const read = kind(text);
    if (read !== null) return read === 'several' || isGivenUp(text, read) ? null : read.letter;
  }
  return null;
}

/** The letter of a text that is nothing else: a ground truth such as `C`, `(C)` or `c.`; null: it is more, or less. */
export function letterOf(ground_truth: string): string | null {
  const text = ground_truth.normalize('NFKC').trim();
  const at = skipDecoration(text, 0);
  const read = letterAt(text, at);
  const isAlone =
    skipDecoration(text.replace(/[.\s]+$/, ''), at + 1) >= text.replace(/[.\s]+$/, '').length;
  return read === null || read === 'several' || !isAlone ? null : read.letter;
}

/** How many places are looked at, from the end: a response that repeats a word endlessly answers nothing. */
const MOST_PLACES = 1000;

function last(places: readonly number[], readAt: (place: number) => Read): Read {
  for (const place of places.slice(-MOST_PLACES).reverse()) {
    const read = readAt(place);
    if (read !== null) return read;
  }
  return null;
}

const ends = (text: string, pattern: RegExp): number[] =>
  Array.from(text.matchAll(pattern), ({ 0: found, index }) => index + found.length);

const WORDS = [...PREFIXES, 'Answers', 'Ans', '正解', '正答']
  .map((prefix) => prefix.replace(/[\s:：ঃ\u200b]+$/u, '').normalize('NFKC'))
  .sort((a, b) => b.length - a.length);
const isLatin = (word: string): boolean => /^\p{Script=Latin}/u.test(word);
const oneOf = (words: readonly string[]): string => words.join('|');
/** Latin words stand alone; those of other scripts may have something before and behind them. */
const ANSWER = new RegExp(
  `(?<![\\p{L}\\p{N}/])(?:${oneOf(WORDS.filter(isLatin))})(?![\\p{L}\\p{N}])|${oneOf(WORDS.filter((word) => !isLatin(word)))}`,
  'giu',
);
const BOX = /\\(?:boxed|fbox|framebox)\s?\{/g;

/** `Answer: B`, `the answer is (B)`, `\boxed{B}`, in many languages. */
function stated(text: string): Read {
  const boxes = new Set(ends(text, BOX));
  const places = [...ends(text, ANSWER), ...boxes].sort((a, b) => a - b);
  return last(places, (from) =>
    boxes.has(from) ? boxedLetter(text, from) : letterAfter(text, { from }),
  );
}

/** The previous one of several boxes. */
const BOX_BEFORE = /[A-Za-z][)\]}*_$\s]{0,6}(?:,|\/|\bor\b|\band\b)[$\s]{0,4}$/;

function boxedLetter(text: string, from: number): Read {
  const read = letterAfter(text, { from, words: 0 });
  const box = text.lastIndexOf('\\', from);
  const isNext = BOX_BEFORE.test(text.slice(Math.max(0, box - 24), box));
  return read !== null && isNext ? 'several' : read;
}

const CHOOSE =
  /(?<![\p{L}\p{N}])(?:options?|choices?|choose|chose|choosing|pick|picked|picking|select|selected|selecting|go(?:ing)? with)(?![\p{L}\p{N}])|选择|選擇|선택/giu;
const IS = /(?<![\p{L}\p{N}])(?:is|be)(?=[\s:])/giu;
const RIGHT =
  /(?<![\p{L}\p{N}])([A-Z])[)\]}*_`.$"']{0,5}\s{1,3}(?:is|seems|must be)\s{1,3}(?:the\s|most\s|clearly\s|definitely\s){0,2}(?:correct|right|best|answer)(?!\p{L})/gu;

/** `I would pick B`, `B is correct`, and `is B` at the end of a line. */
function chosen(text: string): Read {
  const chooses = new Set(ends(text, CHOOSE));
  const rights = new Map(
    Array.from(text.matchAll(RIGHT), ({ 1: letter = '', index }) => [index, letter] as const),
  );
  const places = [...chooses, ...ends(text, IS), ...rights.keys()].sort((a, b) => a - b);
  return last(places, (place) => {
    const letter = rights.get(place);
    if (letter !== undefined) return letterAt(text, place);
    const isChoice = chooses.has(place);
    const read = letterAfter(text, { from: place, words: isChoice ? 3 : 0 });
    if (isChoice) return read;
    const at = skipDecoration(text, place);
    const behind = text.slice(at + 1, at + 49);
    return /^[*_`~$)\]}"'”’.!\s]{0,8}(?:\n|$)/.test(behind) && /[A-Z]/.test(text[at] ?? '')
      ? read
      : null;
  });
}

/** `B`, or `B. Paris`, on the last or the first line. */
function onItsLine(text: string): Read {
  const lines = Array.from(text.matchAll(/[^\n]*\S[^\n]*/g), ({ 0: line, index }) => ({
    line,
    index,
  }));
  const ends = [lines.at(-1) ?? NO_LINE, lines[0] ?? NO_LINE];
  for (const line of ends) {
    const read = lineLetter(line, ALONE);
    if (read !== null) return read;
  }
  const before = ends.map((line) => lineLetter(line, BEFORE_TEXT)).find((read) => read !== null);
  // Lines with other letters are a list of the choices.
  const isList = lines.some(
    (line) => !isSame(lineLetter(line, BEFORE_TEXT) ?? before, before) || LISTED.test(line.line),
  );
  return isList ? null : (before ?? null);
}

const isSame = (one: Read | undefined, other: Read | undefined): boolean =>
  letterOrWhy(one) === letterOrWhy(other);
const letterOrWhy = (read: Read | undefined) => (typeof read === 'object' ? read?.letter : read);

const ALONE = /^[*_`~$)\]}"'”’.:!\s]{0,12}$/;
const BEFORE_TEXT = /^[*_`~$\]}"'”’]{0,4}(?:[.):,]|\s?[-–—])[*_`~$"']{0,4}(?:\s|$)/;

/** Two choices on one line. */
const LISTED = /(?<![\p{L}\p{N}])([A-J])[).:]\s.{0,200}(?<![\p{L}\p{N}])(?!\1)[A-J][).:]\s/u;

const NO_LINE = { line: '', index: 0 };

function lineLetter({ line, index }: typeof NO_LINE, behind: RegExp): Read {
  const at = skipDecoration(line, 0);
  const ahead = line.slice(at + 1, at + 25);
  const read = behind.test(ahead) ? letterAt(line, at) : null;
  return read === null || read === 'several' ? read : { ...read, at: index + at };
}

const DECORATED =
  /(?<![\p{L}\p{N}_^\\}])(?:[([]\s?([A-Za-z])\s?[)\]]|(?:\*{1,3}|_{1,2}|`|"|“|'|\\text(?:bf)?\{)\(?([A-Z])[).:]{0,2}(?:\*{1,3}|_{1,2}|`|"|”|'|\}))(?![\p{Script=Latin}\p{N}])/gu;
const BETWEEN_SEVERAL = new RegExp(`^\\s{0,3}(?:${JOINED}|, or|, and)?\\s{0,3}$`, 'u');

/** `(B)`, `**B**`, wherever it is: the last one. */
function decorated(text: string): Read {
  const found = [...text.matchAll(DECORATED)].slice(-MOST_PLACES).map((match) => {
    const letter = (match[1] ?? match[2] ?? '').toUpperCase();
    const at = match.index + match[0].search(/[A-Za-z](?![A-Za-z{])/);
    return { letter, at, from: match.index, to: match.index + match[0].length };
  });
  const end = found.findLast(
    ({ at, to }) => !isNegated(text, at) && !isDeniedBehind(text.slice(to, to + 48)),
  );
  if (end === undefined) return null;
  const before = found[found.indexOf(end) - 1];
  const between = before && text.slice(before.to, end.from).slice(0, 16);
  const isList = between !== undefined && BETWEEN_SEVERAL.test(between);
  return isList && before?.letter !== end.letter ? 'several' : end;
}

/** `multichoice`: 1 if the letter that the response answers with is the ground truth, in any case and decoration. */
export const verifyMultichoice: PureVerifier = ({ ground_truth, response }) => {
  const text = groundTruthText(ground_truth, 'multichoice');
  const what = letterCheck.problemOf(text);
  if (what !== null)
    throw rejected({ subject: 'multichoice', problems: [{ where: 'ground_truth', what }] });
  const extracted_answer = letterIn(response);
  return { score: Number(extracted_answer === letterOf(text)), extracted_answer };
};

export const letterCheck: GroundTruthCheck = {
  problemOf: (ground_truth) =>
    letterOf(ground_truth) === null
      ? `expected a letter such as "C", got ${preview(ground_truth)}`
      : null,
};
