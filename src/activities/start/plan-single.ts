import type { BatchRequest, SingleRollout } from '../../model/batch-request.js';
import { parseBatchId, toBatchRequest } from '../../model/batch-request.js';
import type { Attempt } from '../attempt.js';
import type { Dependencies } from '../dependencies.js';
import { prepareBatch } from '../plan/prepare-batch.js';
import { requestOf } from '../request-of.js';

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
  if (existed) await dependencies.store.reopenBatch(batch_id);
  return await requestOf(batch_id, dependencies.store);
}
