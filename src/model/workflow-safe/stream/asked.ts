import { waitProblem } from '../durations.js';
import { fieldsProblem, integerProblem } from '../fields.js';

/** Checks the input of a stream's updates inside workflows, where zod is not available. */

/** The problem of the input of update `next_step`, or null. */
export function stepAskedProblem(input: unknown): string | null {
  const problem = fieldsProblem(input, {
    step: (value) => integerProblem(value, 0),
    version: (value) => integerProblem(value, 0),
    wait: waitProblem,
  });
  if (problem !== null || Object.hasOwn(input as object, 'step')) return problem;
  return 'step: expected the number of a step, got nothing';
}

/** The problem of the input of update `forget`, or null. */
export const forgetProblem = (input: unknown): string | null =>
  fieldsProblem(input, { through: (value) => integerProblem(value, 0) });
