import { verifyDapo } from './dapo.js';
import type { GraderPool } from './grader-pool.js';
import { createHfVerifier } from './hf-verifier.js';
import { verifyMultiReward } from './multi-reward.js';
import { verifyEnglishMultichoice, verifyMultilingualMultichoice } from './multichoice.js';
import { isPureVerifier, type VerifierName } from './settings.js';
import type { PureVerifier, Verifier } from './verifier.js';

const PURE: Record<Exclude<VerifierName, 'hf_math_verify'>, PureVerifier> = {
  dapo_math_verify: verifyDapo,
  english_multichoice: verifyEnglishMultichoice,
  multilingual_multichoice: verifyMultilingualMultichoice,
  multi_reward: verifyMultiReward,
};

export function verifierOf(name: VerifierName, grader: GraderPool): Verifier {
  if (!isPureVerifier(name)) return createHfVerifier(grader);
  const verify = PURE[name];
  // A throw in here rejects the promise, as a verifier promises.
  return (input) =>
    new Promise((resolve) => {
      resolve(verify(input));
    });
}
