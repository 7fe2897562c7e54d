import { preview } from '../../../model/problems.js';
import { rejected } from '../../rejections.js';
import type { GroundTruthCheck } from '../ground-truth.js';
import { groundTruthText, type PureVerifier } from '../verifier.js';
import { letterIn, letterOf } from './multichoice-letter.js';

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
