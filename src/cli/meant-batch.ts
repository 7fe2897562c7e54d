import { didYouMean } from '../platform/nearest.js';
import type { TrajectoryStore } from '../trajectories/trajectory-store.js';

/** The end of a message about a batch that is not in the store: which one was probably meant, or nothing. */
export async function meantBatch(
  batchId: string,
  store: Pick<TrajectoryStore, 'listBatches'>,
): Promise<string> {
  const batches = await store.listBatches();
  const ids = batches.map(({ batch_id }) => batch_id);
  return didYouMean(batchId, ids);
}
