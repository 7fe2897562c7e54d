import { groundTruthText } from './ground-truth.js';
import {
  findEnglishLetter,
  findLetter,
  normalizeLetter,
  normalizeResponse,
} from './multichoice-text.js';
import type { PureVerifier, Verdict } from './verifier.js';

/** Upstream's `english_multichoice` (statement 47): the first letter behind "Answer:", both sides undecorated. */
export const verifyEnglishMultichoice: PureVerifier = ({ ground_truth, response }) => {
  const expected = normalizeResponse(groundTruthText(ground_truth, 'english_multichoice'));
  return compare(findEnglishLetter(normalizeResponse(response)), expected);
};

/** Upstream's `multilingual_multichoice` (statement 48): in many languages, the ground truth as it stands. */
export const verifyMultilingualMultichoice: PureVerifier = ({ ground_truth, response }) => {
  const expected = groundTruthText(ground_truth, 'multilingual_multichoice');
  return compare(findLetter(normalizeResponse(response)), expected);
};

function compare(letter: string | null, expected: string): Verdict {
  const extracted_answer = letter === null ? null : normalizeLetter(letter);
  return { score: Number(extracted_answer === expected), extracted_answer };
}
