import type { RolloutRef } from '../model/batch-request.js';
import type { Sharer } from '../generation/generation-service.js';
import { NOBODY } from '../generation/generation-service.js';
import { rolloutId } from '../model/workflow-safe/rollout-id.js';
import type { Attempts } from '../model/faults.js';
import { Fault, faultWith, isDenial, judged } from '../model/faults.js';
import type { RolloutSettings } from '../model/journal.js';
import { faultBefore, waitedFor } from '../model/journal/standing.js';
import type { Names } from '../model/journal/standing.js';
import { openAnswer } from '../model/journal/open-answers.js';
import type { Trajectory } from '../model/journal/trajectory.js';
import type { Journal, TrajectoryStore } from '../trajectories/trajectory-store.js';
import type { Dependencies, GenerationPool } from './dependencies.js';
import type { Lease } from './lease.js';
import { commonMs } from '../platform/waits/common-clock.js';

/** What an attempt has while it plays a rollout: the lease, and the journal that it has claimed. */
export interface Hold extends Lease {
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
export const sharerOf = ({ ref, priority = {} }: Pick<Hold, 'ref' | 'priority'>): Sharer => ({
  id: ref.batch_id,
  // 0: none is given.
  priority: priority.priorityKey || NOBODY.priority,
  share: priority.fairnessWeight || NOBODY.share,
});

interface Failed extends Pick<Hold, 'journal'> {
  /** The number of the call's answer, by default that of the turn in progress. */
  turn?: number;
  /** For a rollout without a start, whose journal does not say it: attempts and names from the request. */
  attempts?: Attempts;
  names?: Names;
}

/** The names of a rollout's environment and service. */
export const namesOf = ({ start, settings_in_force }: Trajectory): Names => ({
  task: start?.task_name ?? '',
  service: settings_in_force?.generation.service ?? '',
});

/**
 * Counts a fault in the journal, where it outlives the attempt. Returns the error to throw: `judged` (model/faults.ts)
 * decides whether it is final.
 */
export async function recordFault(
  error: unknown,
  { journal, turn = journal.trajectory.turns.length, attempts, names }: Failed,
): Promise<unknown> {
  if (!(error instanceof Fault) || error.type === 'StoreFault') return error;
  const { trajectory } = journal;
  const { type, at, status, failureClass, uncounted } = error;
  const now_s = commonMs() / 1000;
  const waited = waitedFor(type, {
    before: faultBefore(trajectory.standing, uncounted ? null : turn),
    names: names ?? namesOf(trajectory),
    now_s,
    is_denial: isDenial(error),
  });
  const { denied_since } = waited;
  const fault =
    denied_since === undefined ? error : judged(error, { denied_s: now_s - denied_since });
  await journal.append({
    kind: 'fault',
    turn,
    type,
    message: fault.message.slice(0, 2000),
    replica: at,
    ...(failureClass !== null && { failure_class: failureClass }),
    ...(status !== null && failureClass !== null && { status }),
    ...(uncounted && { uncounted }),
    waited,
  });
  const allowed = trajectory.settings_in_force?.attempts ?? attempts;
  return judged(faultWith(fault, { waited }), {
    of_turn: openAnswer(trajectory, turn).faults,
    ...(allowed && { attempts: allowed }),
  });
}

/** What the workflow has seen in a journal is in it no more. */
export const journalLost = (
  ref: RolloutRef,
  { lacks, store }: { lacks: string; store: Pick<TrajectoryStore, 'name'> },
): Fault =>
  new Fault({
    type: 'JournalLost',
    message: `the journal of ${rolloutId(ref)} has lost ${lacks}: the store was restored to an earlier moment, its folder or database was moved (this worker has ${store.name}), or workers of one task queue have different stores`,
  });
