import type { BatchRequest } from '../model/batch-request.js';
import { Fault } from '../model/faults.js';
import type { TrajectoryStore } from '../trajectories/trajectory-store.js';

/** The request of a batch that must be there: a store without it is the wrong one, or is not mounted yet. */
export async function requestOf(
  batchId: string,
  store: Pick<TrajectoryStore, 'findRequest'>,
): Promise<BatchRequest> {
  const request = await store.findRequest(batchId);
  if (request !== null) return request;
  throw new Fault({ type: 'StoreFault', message: `the store has no batch ${batchId}` });
}
