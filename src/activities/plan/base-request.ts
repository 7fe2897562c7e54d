import { z } from 'zod';
import { BatchId, BatchRequest, isFilledIn } from '../../model/batch-request.js';
import { Fork, forkedPlace } from '../../model/fork.js';
import type { StoredRequest } from '../../model/stream/stream-request.js';
import { invalidBatchRequest } from '../../model/problems.js';
import { parsedAs } from '../../model/unknown-fields.js';
import { isRecord } from '../../platform/json/object.js';
import type { TrajectoryStore } from '../../trajectories/trajectory-store.js';

/** Requests that only say how they differ from that of another batch. */

const Like = z.looseObject({ like: BatchId });
const Forking = z.looseObject({ fork: Fork });

/** Of the group, not of the rollout that is forked. */
const OF_GROUPS = ['limit', 'num_repeats', 'completion', 'min_valid'] as const;

/** The input as a whole request. Without the fields `like` and `fork` it is one. */
export async function filledIn(
  input: unknown,
  store: Pick<TrajectoryStore, 'findRequest'>,
): Promise<BatchRequest> {
  if (!isFilledIn(input)) return parsedAs(BatchRequest, input);
  if ('like' in input) {
    const { like, ...changes } = parsedAs(Like, input);
    const base = await baseOf(like, { where: 'like', store });
    return parsedAs(BatchRequest, changed(base, changes));
  }
  const { fork, ...changes } = parsedAs(Forking, input);
  const { batch_id } = forkedPlace(fork);
  const base = await baseOf(batch_id, { where: 'fork.rollout_id', store });
  for (const name of OF_GROUPS) Reflect.deleteProperty(base, name);
  return parsedAs(BatchRequest, { ...changed(base, changes), fork });
}

/** With its samples as the store has them, whatever has become of their file. */
async function baseOf(
  batch: string,
  { where, store }: { where: string; store: Pick<TrajectoryStore, 'findRequest'> },
): Promise<Partial<StoredRequest>> {
  const found = await store.findRequest(batch);
  if (found === null) {
    const what = `expected a batch or a stream that the store has, got ${batch}`;
    throw invalidBatchRequest([{ where, what }]);
  }
  const base = { ...found, samples: { batch } };
  delete base.stream;
  return base;
}

/** Groups of settings are changed one by one. */
const GROUPED = ['generation', 'attempts'] as const;

function changed(base: Partial<BatchRequest>, changes: Record<string, unknown>): object {
  const grouped = GROUPED.flatMap((name) => {
    const change = changes[name];
    return isRecord(change) ? [[name, { ...base[name], ...change }] as const] : [];
  });
  return { ...base, ...changes, ...(Object.fromEntries(grouped) as object) };
}
