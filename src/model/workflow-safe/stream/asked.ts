import { toMs, waitProblem } from '../durations.js';
import { fieldsProblem, integerProblem } from '../fields.js';

/** Input of a stream's updates, checked where zod cannot be. */

const USUAL_WAIT = '60s';

/** What is wrong with the input of update `next_step`; null: nothing. */
export function stepAskedProblem(input: unknown): string | null {
  const problem = fieldsProblem(input, {
    step: (value) => integerProblem(value, 0),
    version: (value) => integerProblem(value, 0),
    wait: waitProblem,
  });
  if (problem !== null || Object.hasOwn(input as object, 'step')) return problem;
  return 'step: expected the number of a step, got nothing';
}

export const stepWaitMs = ({ wait = USUAL_WAIT }: { wait?: string }): number => toMs(wait);

/** What is wrong with the input of update `forget`; null: nothing. */
export const forgetProblem = (input: unknown): string | null =>
  fieldsProblem(input, { through: (value) => integerProblem(value, 0) });
