import type { WeightControl } from '../../generation/weight-control.js';
import { Fault } from '../../model/faults.js';

const CALL_MS = 10_000;

/**
 * Ends a pause with unknown weights. Frozen streams are cut first, because they would continue under those weights;
 * then the engine is resumed. Returns false if the engine does not answer, and so serves nobody.
 */
export async function release(
  control: WeightControl,
  { signal }: { signal: AbortSignal },
): Promise<boolean> {
  const bound = { within_ms: CALL_MS, signal };
  try {
    await control.cutOff(bound);
    await control.resume(bound);
    return true;
  } catch (error) {
    if (error instanceof Fault) return error.status !== null;
    if (signal.aborted) return false;
    throw error;
  }
}
