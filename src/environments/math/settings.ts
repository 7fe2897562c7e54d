import { z } from 'zod';
import { Flag } from '../../model/field-kinds.js';
import { STEP_QUEUE } from '../kind.js';

const Verifier = z.enum([
  'hf_math_verify',
  'dapo_math_verify',
  'english_multichoice',
  'multilingual_multichoice',
  'multichoice',
  'multi_reward',
]);
export type VerifierName = z.infer<typeof Verifier>;

/** An unknown verifier stops the worker's start; upstream gives every rollout the reward 0. */
export const MathSettings = z.strictObject({
  kind: z.literal('math').describe("compares the answer with the sample's `ground_truth`"),
  verifier: Verifier.default('hf_math_verify').describe('the grader that compares answers'),
  return_extracted_answer: Flag.describe('adds the compared answer to rows (`extracted_answer`)'),
  ...STEP_QUEUE,
});
export type MathSettings = z.infer<typeof MathSettings>;

/** Pure functions; the other verifier is a Python process. */
export const isPureVerifier = (
  verifier: VerifierName,
): verifier is Exclude<VerifierName, 'hf_math_verify'> => verifier !== 'hf_math_verify';
