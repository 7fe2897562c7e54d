import type { Bound, WeightControl } from '../../generation/weight-control.js';
import { Fault } from '../../model/faults.js';
import { refused } from './policy-view.js';

/** Whether `asOne` says that several engines answer. A refused key has a status. */
export const isShared = (error: unknown): error is Fault =>
  error instanceof Fault && error.type === 'GenerationRejected' && error.status === null;

/**
 * Throws for an engine that several URLs lead to: it would be paused, loaded and resumed twice at once, and its streams
 * have two labels. Processes are told apart by when they started and by their processor time, which one process has
 * between what it had and what it has. One that says neither is not known.
 */
export async function checkOneUrlEach(
  controls: readonly WeightControl[],
  bound: Bound,
): Promise<void> {
  const signs = await Promise.all(
    controls.map(async (control) => ({ control, sign: await signOf(control, bound) })),
  );
  for (const [i, { control, sign }] of signs.entries())
    for (const earlier of signs.slice(0, i)) {
      if (sign === null || earlier.sign?.started !== sign.started) continue;
      if (!(await areOne([earlier.control, control], bound))) continue;
      throw refused(
        `${control.replica}: expected each engine once, got the process that answers at ${earlier.control.replica}, too: leave one of the two URLs out`,
      );
    }
}

async function areOne([a, b]: [WeightControl, WeightControl], bound: Bound): Promise<boolean> {
  const before = await signOf(a, bound);
  const between = await signOf(b, bound);
  const after = await signOf(a, bound);
  if (before === null || between === null || after === null) return false;
  return before.cpu_s <= between.cpu_s && between.cpu_s <= after.cpu_s;
}

/** null: it does not say, or does not answer. */
async function signOf(
  control: WeightControl,
  bound: Bound,
): Promise<Awaited<ReturnType<WeightControl['processSign']>>> {
  try {
    return await control.processSign(bound);
  } catch (error) {
    if (!(error instanceof Fault)) throw error;
    return null;
  }
}
