import { compareBounded } from './answers.js';
import type { GraderPool } from './grader-pool.js';
import { groundTruthText } from './ground-truth.js';
import type { Verifier } from './verifier.js';

/**
 * Upstream's `hf_math_verify`: math-verify with LaTeX in the ground truth, expressions and LaTeX in the response
 * (statement 45). A ground truth that it cannot read gives 0, as upstream; running out of time is a fault.
 */
export const createHfVerifier =
  (grader: GraderPool): Verifier =>
  async ({ ground_truth, response }, signal) => {
    const gold = `\\boxed{${groundTruthText(ground_truth, 'hf_math_verify')}}`;
    return compareBounded(grader, { gold, answer: response, signal });
  };
