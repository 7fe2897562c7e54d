import type { RolloutRef } from '../../model/batch-request.js';
import type { LimitsChange } from '../../model/workflow-safe/limits.js';
import type { Facts } from '../../trajectories/trajectory-store.js';
import type { Changes } from './limit-facts.js';
import { foldChanges, limitsSeries, readLimits } from './limit-facts.js';

export type LimitsWatch = ReturnType<typeof createLimitsWatch>;

interface Follower {
  changed: (limits: LimitsChange) => void;
  looks?: () => void;
}

/** Looks at a journal cost microseconds each, and there may be ten thousand. */
const LOOKS_EVERY = 5;

const LOOK_EVERY_MS = 1000;

interface Watched {
  /** Number of the last fact. */
  known: number;
  changes: Changes;
  followers: Set<Follower & { ref: RolloutRef }>;
}

/**
 * Changed limits of the rollouts that this process plays. One look a second for all their batches: a `stat` each, or one
 * query. None while nothing is played.
 */
export function createLimitsWatch(facts: Pick<Facts, 'news'>, { every_ms = LOOK_EVERY_MS } = {}) {
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
  let ticks = 0;
  const tick = (): void => {
    ticks += 1;
    if (ticks % LOOKS_EVERY === 0)
      for (const { followers } of batches.values()) for (const { looks } of followers) looks?.();
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
    /**
     * Calls back each second with the changes that the rollout's batch has, once it has any, and every few seconds anyway.
     * Returns what ends that.
     */
    follow: (ref: RolloutRef, given: Follower) => {
      const { batch_id } = ref;
      const batch = batches.get(batch_id) ?? {
        known: -1,
        changes: foldChanges(batch_id),
        followers: new Set(),
      };
      batches.set(batch_id, batch);
      const follower = { ref, ...given };
      batch.followers.add(follower);
      timer ??= setInterval(tick, every_ms).unref();
      return (): void => {
        batch.followers.delete(follower);
        if (batch.followers.size === 0 && batches.get(batch_id) === batch) batches.delete(batch_id);
        if (batches.size > 0 || timer === null) return;
        clearInterval(timer);
        timer = null;
      };
    },
  };
}
