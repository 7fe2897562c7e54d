import { z } from 'zod';

/** Rounding noise that a logprob may be above 0 by. */
const NOISE = 1e-6;
/** vLLM writes minus infinity as this value, to keep its JSON valid. No sampled token has it. */
export const MINUS_INFINITY = -9999;

export const LOGPROB_RANGE = `a number from ${MINUS_INFINITY} (excluded) to 0`;

/** Whether a token that was sampled may have it. */
export const isLogprob = (value: unknown): value is number =>
  typeof value === 'number' && value <= NOISE && value > MINUS_INFINITY;

/** Trainers' arrays have float32: a larger number is infinite there. */
const GREATEST_FLOAT32 = 2 ** 128 - 2 ** 104;
const tooLarge = 'expected a number that float32 has';
export const Float32 = z.number().min(-GREATEST_FLOAT32, tooLarge).max(GREATEST_FLOAT32, tooLarge);

/** Above any meaningful weight, and small enough that no sum over a batch is infinite in float32. */
const GREATEST_MULTIPLIER = 1e6;
const notMultiplier = `expected a number from 0 to ${GREATEST_MULTIPLIER}`;
export const LossMultiplier = z
  .number()
  .min(0, notMultiplier)
  .max(GREATEST_MULTIPLIER, notMultiplier);
