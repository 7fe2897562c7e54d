import { Fault } from '../model/faults.js';
import type { Sample } from '../model/sample.js';
import type { StoredRequest, StreamSettings } from '../model/stream/stream-request.js';
import type { StreamPlace } from '../model/workflow-safe/stream/sample-order.js';
import { placeOfGroup } from '../model/workflow-safe/stream/sample-order.js';
import type { TrajectoryStore } from '../trajectories/trajectory-store.js';

/** The request of a batch. If the store does not have it, it is the wrong store, or is not mounted yet. */
export async function requestOf(
  batchId: string,
  store: Pick<TrajectoryStore, 'findRequest'>,
): Promise<StoredRequest> {
  const request = await store.findRequest(batchId);
  if (request !== null) return request;
  throw new Fault({ type: 'StoreFault', message: `the store has no batch ${batchId}` });
}

export function streamOf({ stream }: StoredRequest, stream_id: string): StreamSettings {
  if (stream !== undefined) return stream;
  throw new Fault({ type: 'StoreFault', message: `the store has a batch ${stream_id}, no stream` });
}

/** The sample of a rollout: in a batch its row's, in a stream the one whose turn it was when its group began. */
export async function sampleOf(
  { batch_id, row }: { batch_id: string; row: number },
  store: Pick<TrajectoryStore, 'findRequest' | 'sampleCount' | 'readSample'>,
): Promise<{ sample: Sample; place: StreamPlace | null }> {
  const place = await streamPlaceOf({ batch_id, row }, store);
  return { sample: await store.readSample({ batch_id, row: place?.sample_row ?? row }), place };
}

/** The same as it was given. */
export async function sampleTextOf(
  { batch_id, row }: { batch_id: string; row: number },
  store: Pick<TrajectoryStore, 'findRequest' | 'sampleCount' | 'readSampleText'>,
): Promise<string> {
  const place = await streamPlaceOf({ batch_id, row }, store);
  return await store.readSampleText({ batch_id, row: place?.sample_row ?? row });
}

/** null: it is a batch's. */
async function streamPlaceOf(
  { batch_id, row }: { batch_id: string; row: number },
  store: Pick<TrajectoryStore, 'findRequest' | 'sampleCount'>,
): Promise<StreamPlace | null> {
  const { stream } = await requestOf(batch_id, store);
  if (stream === undefined) return null;
  return placeOfGroup(row, { ...stream, samples: await store.sampleCount(batch_id) });
}
