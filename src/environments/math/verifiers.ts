import { compareBounded } from './answers.js';
import { verifyDapo } from './dapo.js';
import type { GraderPool } from './grader-pool.js';
import { checkedByGrader, gradedAgainstItself, type GroundTruthCheck } from './ground-truth.js';
import { letterCheck, verifyMultichoice } from './letters/multichoice-letter.js';
import { verifyMultiReward } from './multi-reward.js';
import { verifyEnglishMultichoice, verifyMultilingualMultichoice } from './multichoice.js';
import { isPureVerifier, type VerifierName } from './settings.js';
import { groundTruthText, type PureVerifier, type Verdict, type Verifier } from './verifier.js';

type PureName = Exclude<VerifierName, 'hf_math_verify'>;

const PURE: Record<PureName, PureVerifier> = {
  dapo_math_verify: verifyDapo,
  english_multichoice: verifyEnglishMultichoice,
  multilingual_multichoice: verifyMultilingualMultichoice,
  multichoice: verifyMultichoice,
  multi_reward: verifyMultiReward,
};

const afterAnswer = (answer: string): string => `Answer: ${answer}`;
const inTags = (answer: string): string => `<answer>${answer}</answer>`;

const SAY: Record<Exclude<PureName, 'multichoice'>, (answer: string) => string> = {
  dapo_math_verify: afterAnswer,
  english_multichoice: afterAnswer,
  multilingual_multichoice: afterAnswer,
  multi_reward: inTags,
};

export interface Verifies {
  verify: Verifier;
  check: GroundTruthCheck;
}

export function verifierOf(name: VerifierName, grader: GraderPool): Verifies {
  if (!isPureVerifier(name))
    return { verify: createHfVerifier(grader), check: checkedByGrader(grader, box) };
  const verify = PURE[name];
  return {
    // A throw inside the promise rejects it, as `Verifier` requires.
    verify: (input) =>
      new Promise((resolve) => {
        resolve(verify(input));
      }),
    check:
      name === 'multichoice'
        ? letterCheck
        : gradedAgainstItself({
            isRight: (ground_truth, response) => isCorrect(verify({ ground_truth, response })),
            say: SAY[name],
          }),
  };
}

/** With several components, this one decides. */
const CORRECTNESS = 'reward/correctness';

export const isCorrect = ({ score }: Verdict): boolean =>
  (typeof score === 'number' ? score : (score[CORRECTNESS] ?? 0)) !== 0;

const box = (text: string): string => `\\boxed{${text}}`;

/** Upstream's `hf_math_verify`. An unreadable ground truth gives 0, as upstream; a timeout is a fault. */
export const createHfVerifier =
  (grader: GraderPool): Verifier =>
  async ({ ground_truth, response }, signal) => {
    const gold = box(groundTruthText(ground_truth, 'hf_math_verify'));
    return compareBounded(grader, { gold, answer: response, signal });
  };
