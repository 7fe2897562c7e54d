import type { BatchRequest } from '../../model/batch-request.js';
import { Fault, judged } from '../../model/faults.js';
import type { Attempt } from '../attempt.js';
import type { GenerationPool } from '../dependencies.js';

/** Questions to replicas while a batch is planned. */
export interface AskedEngines extends Pick<Attempt, 'signal' | 'warn'> {
  request: BatchRequest;
  pool: GenerationPool;
}

/** A misconfigured server is not asked again. */
export async function askedOnce<T>(ask: () => Promise<T>): Promise<T> {
  try {
    return await ask();
  } catch (error) {
    if (!(error instanceof Fault)) throw error;
    throw judged(error, { is_planned: false });
  }
}
