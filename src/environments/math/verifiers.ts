import { verifyDapo } from './dapo.js';
import type { GraderPool } from './grader-pool.js';
import { verifyMultiReward } from './multi-reward.js';
import { verifyEnglishMultichoice, verifyMultilingualMultichoice } from './multichoice.js';
import { isPureVerifier, type VerifierName } from './settings.js';
import type { PureVerifier, Verifier } from './verifier.js';
import { compareBounded } from './answers.js';
import { groundTruthText } from './verifier.js';

const PURE: Record<Exclude<VerifierName, 'hf_math_verify'>, PureVerifier> = {
  dapo_math_verify: verifyDapo,
  english_multichoice: verifyEnglishMultichoice,
  multilingual_multichoice: verifyMultilingualMultichoice,
  multi_reward: verifyMultiReward,
};

export function verifierOf(name: VerifierName, grader: GraderPool): Verifier {
  if (!isPureVerifier(name)) return createHfVerifier(grader);
  const verify = PURE[name];
  // A throw inside the promise rejects it, as `Verifier` requires.
  return (input) =>
    new Promise((resolve) => {
      resolve(verify(input));
    });
}

/**
 * Upstream's `hf_math_verify`: math-verify with LaTeX in the ground truth, expressions and LaTeX in the response. An
 * unreadable ground truth gives 0, as upstream; a timeout is a fault.
 */
export const createHfVerifier =
  (grader: GraderPool): Verifier =>
  async ({ ground_truth, response }, signal) => {
    const gold = `\\boxed{${groundTruthText(ground_truth, 'hf_math_verify')}}`;
    return compareBounded(grader, { gold, answer: response, signal });
  };
