import type { BatchRequest, RolloutRef } from '../../model/batch-request.js';
import { SingleRollout, parseBatchId, toBatchRequest } from '../../model/batch-request.js';
import { takenOver } from '../../model/faults.js';
import { parsedAs } from '../../model/unknown-fields.js';
import { rolloutId } from '../../model/workflow-safe/rollout-id.js';
import type { Attempt } from '../attempt.js';
import type { Dependencies } from '../dependencies.js';
import { prepareBatch } from '../plan/prepare-batch.js';
import { restoreLimits } from '../limits/limit-facts.js';
import { requestOf } from '../request-of.js';

export const parseSingle = (input: unknown): SingleRollout => parsedAs(SingleRollout, input);

/** A rollout that its workflow has begun to finish is opened no more, and neither is its batch. */
async function checkUnfinished(
  ref: RolloutRef,
  { run_id, store }: Pick<Attempt, 'run_id'> & Pick<Dependencies, 'store'>,
): Promise<void> {
  const { finished_in } = await store.readTrajectory(ref);
  if (finished_in === run_id) throw takenOver(`the journal of ${rolloutId(ref)}`);
}

/** A rollout started by hand brings its sample and is planned as a batch of one. Returns that batch's request. */
export async function planSingle(
  { single, attempt }: { single: SingleRollout; attempt: Attempt },
  dependencies: Dependencies,
): Promise<BatchRequest> {
  const batch_id = parseBatchId(attempt.workflow_id);
  const { signal, warn } = attempt;
  const input = toBatchRequest(single);
  const { request, samples } = await prepareBatch({ input, signal, warn }, dependencies);
  const { existed } = await dependencies.store.createBatch({ batch_id, request, samples });
  // An abandoned attempt must not open what another one has closed.
  signal.throwIfAborted();
  if (existed) {
    await checkUnfinished({ batch_id, row: 0, repeat: 0 }, { ...dependencies, ...attempt });
    await restoreLimits({ batch_id, run: attempt.run_id }, dependencies.store.facts);
    await dependencies.store.reopenBatch(batch_id);
  }
  return await requestOf(batch_id, dependencies.store);
}
