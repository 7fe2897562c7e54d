import { lastCodePoints, PYTHON_SPACE } from '../../platform/python/text.js';
import { normalizeFinalAnswer } from './dapo-answer.js';
import { groundTruthText } from './ground-truth.js';
import type { PureVerifier } from './verifier.js';

/** Code points at the end of a response in which its answer is looked for. */
const TAIL = 300;
const ANSWER = new RegExp(`Answer${PYTHON_SPACE}*:${PYTHON_SPACE}*([^\\n]+)`, 'giu');

/**
 * Upstream's `dapo_math_verify` (statement 50): 1 where the last line `Answer: …` of the response's end says what the
 * ground truth says, both brought into one form.
 */
export const verifyDapo: PureVerifier = ({ ground_truth, response }) => {
  const expected = normalizeFinalAnswer(groundTruthText(ground_truth, 'dapo_math_verify'));
  const last = [...lastCodePoints(response, TAIL).matchAll(ANSWER)].at(-1);
  const extracted_answer = normalizeFinalAnswer(last?.[1] ?? '[INVALID]');
  return { score: Number(extracted_answer === expected), extracted_answer };
};
