import { Fault } from '../../model/faults.js';
import { BatchResult } from '../../model/results/result.js';
import type { BatchOutputs } from '../../trajectories/trajectory-store.js';

/** null: it is not closed, or its result is on another host, or is none that this release knows. */
export async function resultOf(
  outputs: Pick<BatchOutputs, 'readMetrics'>,
): Promise<BatchResult | null> {
  try {
    return BatchResult.safeParse(await outputs.readMetrics()).data ?? null;
  } catch (error) {
    if (error instanceof Fault && error.cause instanceof SyntaxError) return null;
    throw error;
  }
}
