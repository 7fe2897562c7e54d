import type { Inputs } from '../activities/contract.js';
import { findInputs } from './activity-options.js';
import { failWith, failureOf } from './ending.js';

/** Tells a client where workers read samples, so that it may put a file there that no request has room for. */
export async function inputs(input: unknown): Promise<Inputs> {
  try {
    return await findInputs(input);
  } catch (error) {
    throw failWith(failureOf(error));
  }
}
