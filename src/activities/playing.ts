import type { RolloutRef } from '../model/batch-request.js';
import type { Sharer } from '../generation/generation-service.js';
import { NOBODY } from '../generation/generation-service.js';
import { rolloutId } from '../model/workflow-safe/rollout-id.js';
import { Fault } from '../model/faults.js';
import type { RolloutSettings } from '../model/journal.js';
import type { Journal, TrajectoryStore } from '../trajectories/trajectory-store.js';
import type { Dependencies, GenerationPool } from './dependencies.js';
import type { Lease } from './lease.js';

/** What an attempt has while it plays a rollout: the lease, and the journal that it has claimed. */
export interface Playing extends Lease {
  journal: Journal;
}

export function poolOf(
  { generation }: Pick<RolloutSettings, 'generation'>,
  { service, known }: Dependencies,
): GenerationPool {
  const pool = service(generation.service);
  if (pool !== undefined) return pool;
  throw new Fault({
    type: 'GenerationUnavailable',
    message: `this worker has no generation service ${generation.service}, only ${known.services.join(', ')}`,
  });
}

/** Its batch or stream, by which it shares slots. A server that knows no shares says none. */
export const sharerOf = ({ ref, priority = {} }: Pick<Playing, 'ref' | 'priority'>): Sharer => ({
  id: ref.batch_id,
  // 0: none is given.
  priority: priority.priorityKey || NOBODY.priority,
  share: priority.fairnessWeight || NOBODY.share,
});

/** The journal lacks something that the workflow has seen in it. */
export const journalLost = (
  ref: RolloutRef,
  { lacks, store }: { lacks: string; store: Pick<TrajectoryStore, 'name'> },
): Fault =>
  new Fault({
    type: 'JournalLost',
    message: `the journal of ${rolloutId(ref)} has lost ${lacks}: the store was restored to an earlier moment, its folder or database was moved (this worker has ${store.name}), or workers of one task queue have different stores`,
  });
