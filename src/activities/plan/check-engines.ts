import type { WeightControl } from '../../generation/weight-control.js';
import { Fault } from '../../model/faults.js';
import { invalidBatchRequest } from '../../model/problems.js';
import type { Dependencies } from '../dependencies.js';
import { isShared } from '../policy/one-engine.js';
import type { Asked } from './asked-once.js';

const QUESTION_MS = 10_000;
/** How long an engine that was found to be one is not asked again: there may be thousands of small batches. */
const KNOWN_MS = 60_000;
const known = new WeakMap<WeightControl, { epoch: number; at: number }>();

/** Refuses URLs that lead to several engines: one would sample what the other has a label for. */
export async function checkEngines(
  { request, signal }: Pick<Asked, 'request' | 'signal'>,
  { policy }: Pick<Dependencies, 'policy'>,
): Promise<void> {
  const service = policy(request.generation.service);
  const record = (await service?.records.latest()) ?? null;
  const problems = await Promise.all(
    (service?.controls ?? []).map(async (control) => {
      const { state = 'current', epoch = 0 } = record?.replicas[control.replica] ?? {};
      const before = known.get(control);
      const isKnown = before?.epoch === epoch && performance.now() - before.at < KNOWN_MS;
      if (state !== 'current' || isKnown) return [];
      const what = await whySeveral(control, signal);
      if (what === null) known.set(control, { epoch, at: performance.now() });
      return what === null ? [] : [{ where: 'generation.service', what }];
    }),
  );
  if (problems.flat().length > 0) throw invalidBatchRequest(problems.flat());
}

/** null: one answers, or none, for which rollouts wait. */
async function whySeveral(control: WeightControl, signal: AbortSignal): Promise<string | null> {
  try {
    await control.asOne({ starts: true }, { within_ms: QUESTION_MS, signal });
    return null;
  } catch (error) {
    signal.throwIfAborted();
    if (!(error instanceof Fault)) throw error;
    return isShared(error) ? error.message : null;
  }
}
