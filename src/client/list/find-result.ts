import { Fault } from '../../model/faults.js';
import { BatchResult } from '../../model/results/result.js';
import type { BatchOutputs } from '../../trajectories/trajectory-store.js';

/** Of what this release cannot read its fault, so that a list has the others. */
export async function orUnreadable<T>(reading: Promise<T>): Promise<T | Fault> {
  return await reading.catch((error: unknown) => {
    if (error instanceof Fault && error.cause instanceof SyntaxError) return error;
    throw error;
  });
}

/** null: it is not closed, or its result is on another host, or is none that this release knows. */
export async function resultOf(
  outputs: Pick<BatchOutputs, 'readMetrics'>,
): Promise<BatchResult | null> {
  const metrics = await orUnreadable(outputs.readMetrics());
  return metrics instanceof Fault ? null : (BatchResult.safeParse(metrics).data ?? null);
}
