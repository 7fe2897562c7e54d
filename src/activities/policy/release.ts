import { setTimeout as sleep } from 'node:timers/promises';
import type { Bound, WeightControl } from '../../generation/weight-control.js';
import { Fault } from '../../model/faults.js';

const CALL_MS = 10_000;
/** For all calls together. */
const RELEASE_MS = 30_000;
const BETWEEN_TRIES_MS = 1000;

/**
 * Ends a pause with unknown weights. Frozen streams are cut first, because they would continue under those weights;
 * then the engine is resumed. Returns false if the engine does not answer, and so serves nobody.
 */
export async function release(control: WeightControl): Promise<boolean> {
  const signal = AbortSignal.timeout(RELEASE_MS);
  const bound = { within_ms: CALL_MS, signal };
  try {
    await control.cutOff(bound);
    // It has no memory to go on with.
    if (await control.isAsleep(bound)) return true;
    await resume(control, bound);
    return true;
  } catch (error) {
    if (error instanceof Fault) return error.status !== null;
    if (signal.aborted) return false;
    throw error;
  }
}

/** Tries again: an engine that has just been cut off is there, and nobody else may end its pause. */
async function resume(control: WeightControl, bound: Bound): Promise<void> {
  for (;;) {
    try {
      await control.resume(bound);
      return;
    } catch (error) {
      if (!(error instanceof Fault) || !error.retryable) throw error;
      await sleep(BETWEEN_TRIES_MS);
      if (bound.signal.aborted) throw error;
    }
  }
}
