import {
  createDistribution,
  divisor,
  type Distribution,
  type LogprobsMode,
  type Option,
  type Sampling,
} from './distribution.js';
import { createMemo } from './memo.js';

/**
 * The simulator's thoughts: words with weights. Each ends with a space and contains no other, so none begins another
 * one; the lone space fills a last free token. Some have characters of two, three and four bytes.
 */
const WORDS: readonly (readonly [word: string, weight: number])[] = [
  ['the ', 12],
  ['tile ', 9],
  ['empty ', 6],
  ['space ', 6],
  ['is ', 5],
  ['I ', 4],
  ['move ', 6],
  ['so ', 4],
  ['then ', 4],
  ['row ', 4],
  ['column ', 3],
  ['next ', 3],
  ['to ', 6],
  ['it ', 3],
  ['must ', 2],
  ['closer ', 3],
  ['goal ', 3],
  ['board ', 3],
  ['slide ', 4],
  ['wait, ', 1],
  ['maybe ', 2],
  ['neighbour ', 1],
  ['→ ', 1],
  ['naïve ', 0.5],
  ['空き ', 0.3],
  ['🧩 ', 0.3],
  [' ', 0.05],
];

const LONGEST = Math.max(...WORDS.map(([word]) => Buffer.byteLength(word)));

export interface WordRequest {
  sampling: Sampling;
  mode: LogprobsMode;
  /** Tokens left for thinking; longer words are excluded. */
  room: number;
}

/** The distribution of the next word. */
export function createWords(): (request: WordRequest) => Distribution {
  const memo = createMemo<Distribution>(500);
  return ({ sampling, mode, room }) => {
    const longest = Math.max(1, Math.min(room, LONGEST));
    const { temperature, top_p, top_k, min_p } = sampling;
    const key = [longest, temperature, top_p, top_k, min_p, mode].join();
    return memo(key, () => createDistribution(wordsUpTo(longest), { sampling, mode }));
  };
}

function wordsUpTo(longest: number): (sampling: Sampling) => Option[] {
  const fitting = WORDS.filter(([word]) => Buffer.byteLength(word) <= longest);
  return (sampling) => {
    const powers = fitting.map(([, weight]) => weight ** (1 / divisor(sampling)));
    const sum = powers.reduce((total, power) => total + power, 0);
    return fitting.map(([text], i) => ({ text, probability: (powers[i] ?? 0) / sum }));
  };
}

/**
 * The position in a text of words: how many of its bytes are whole words, where the last one began, and what follows.
 */
export interface WordPlace {
  /** Bytes of whole words. */
  length: number;
  /** Where the last whole word began; -1 before the first. */
  last_start: number;
  /** The bytes after the last whole word. */
  rest: readonly number[];
}

const WORD_BYTES = WORDS.map(([word]) => Array.from(Buffer.from(word)));

/** Reads whole words from the beginning. */
export function readWords(bytes: readonly number[]): WordPlace {
  let length = 0;
  let last_start = -1;
  for (;;) {
    const word = WORD_BYTES.find((letters) =>
      letters.every((byte, i) => bytes[length + i] === byte),
    );
    if (word === undefined) return { length, last_start, rest: bytes.slice(length) };
    last_start = length;
    length += word.length;
  }
}

export function beginsWord(bytes: readonly number[]): boolean {
  return WORD_BYTES.some((word) => bytes.every((byte, i) => word[i] === byte));
}
