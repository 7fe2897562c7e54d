import { toMs, waitProblem } from '../durations.js';
import { fieldsProblem, integerProblem } from '../fields.js';

/** Checks the input of a stream's updates inside workflows, where zod is not available. */

const USUAL_WAIT = '60s';

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

export const stepWaitMs = ({ wait = USUAL_WAIT }: { wait?: string }): number => toMs(wait);

/** The problem of the input of update `forget`, or null. */
export const forgetProblem = (input: unknown): string | null =>
  fieldsProblem(input, { through: (value) => integerProblem(value, 0) });
