import { isDigits } from '../../platform/python/text.js';
import { groundTruthText } from './ground-truth.js';
import { answerOf, isWellFormed } from './multi-reward-text.js';
import type { PureVerifier } from './verifier.js';

/**
 * Upstream's `math_multi_reward` (statement 51): is what the answer tag holds the ground truth to the letter, is it
 * made of digits, has the response the form asked for; each 0 or 1.
 */
export const verifyMultiReward: PureVerifier = ({ ground_truth, response }) => {
  const expected = groundTruthText(ground_truth, 'multi_reward');
  const extracted_answer = answerOf(response);
  return {
    score: {
      'reward/correctness': Number(extracted_answer === expected),
      'reward/integer': Number(isDigits(extracted_answer)),
      'reward/format': Number(isWellFormed(response)),
    },
    extracted_answer,
  };
};
