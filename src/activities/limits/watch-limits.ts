import type { RolloutRef } from '../../model/batch-request.js';
import type { LimitsChange } from '../../model/workflow-safe/limits.js';
import type { Facts } from '../../trajectories/trajectory-store.js';
import type { Changes } from './limit-facts.js';
import { foldChanges, limitsSeries, readLimits } from './limit-facts.js';

/** Changed limits of the rollouts that this process plays. */
export interface LimitsWatch {
  /**
   * Calls back each second with the changes that the rollout's batch has, once it has any. Returns what ends that.
   */
  follow(ref: RolloutRef, changed: (limits: LimitsChange) => void): () => void;
}

const LOOK_EVERY_MS = 1000;

interface Watched {
  /** Number of the last fact. */
  known: number;
  changes: Changes;
  followers: Set<{ ref: RolloutRef; changed: (limits: LimitsChange) => void }>;
}

/** One look a second for all batches that are played here: a `stat` each, or one query. None while nothing is played. */
export function createLimitsWatch(
  facts: Pick<Facts, 'news'>,
  { every_ms = LOOK_EVERY_MS }: { every_ms?: number } = {},
): LimitsWatch {
  const batches = new Map<string, Watched>();
  let timer: NodeJS.Timeout | null = null;
  let isLooking = false;

  const look = async (): Promise<void> => {
    const asked = [...batches].map(([id, { known }]) => ({ series: limitsSeries(id), known }));
    for (const { series, n, text } of await facts.news(asked)) {
      const batch = batches.get(series[0]);
      if (batch === undefined || n !== batch.known + 1) continue;
      batch.known = n;
      const fact = readLimits(text);
      if (fact !== null) batch.changes.take(fact);
    }
    for (const { known, changes, followers } of batches.values())
      if (known >= 0) for (const { ref, changed } of followers) changed(changes.of(ref));
  };
  const tick = (): void => {
    if (isLooking) return;
    isLooking = true;
    // A store that cannot be read is asked again in a second; attempts say themselves that it is away.
    void look()
      .catch(() => undefined)
      .finally(() => {
        isLooking = false;
      });
  };
  return {
    follow: (ref, changed) => {
      const { batch_id } = ref;
      const batch = batches.get(batch_id) ?? {
        known: -1,
        changes: foldChanges(batch_id),
        followers: new Set(),
      };
      batches.set(batch_id, batch);
      const follower = { ref, changed };
      batch.followers.add(follower);
      timer ??= setInterval(tick, every_ms).unref();
      return () => {
        batch.followers.delete(follower);
        if (batch.followers.size === 0 && batches.get(batch_id) === batch) batches.delete(batch_id);
        if (batches.size > 0 || timer === null) return;
        clearInterval(timer);
        timer = null;
      };
    },
  };
}
