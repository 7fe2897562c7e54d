import { z } from 'zod';
import { ChangedLimits } from '../../model/journal.js';
import { rolloutId } from '../../model/workflow-safe/rollout-id.js';
import type { LimitsChange } from '../../model/workflow-safe/limits.js';
import type { RolloutRef } from '../../model/batch-request.js';
import type { Facts, Series } from '../../trajectories/trajectory-store.js';

/**
 * Changed limits as facts of the store, one series a batch: so they reach the attempts that play, which may not end for
 * minutes. Later attempts get them from their workflow, which puts a change before it passes it on.
 */
const LimitsFact = z.strictObject({
  /** null: the batch was started again, with the limits of its request. */
  limits: z
    .strictObject({ ...ChangedLimits.shape, rollout_timeout: z.string().exactOptional() })
    .nullable(),
  /** The only one that it concerns; absent: all of the batch. */
  rollout: z.object({ row: z.int(), repeat: z.int() }).exactOptional(),
  /** The workflow's run that put it. */
  run: z.string(),
});
type LimitsFact = z.infer<typeof LimitsFact>;

const limitsSeries = (batch_id: string): Series => [batch_id, 'limits'];

/** null: an unknown version wrote it. */
function readLimits(text: string): LimitsFact | null {
  const { data } = LimitsFact.safeParse(JSON.parse(text));
  return data ?? null;
}

/** Puts it behind the last one. */
export async function putLimits(
  { batch_id, ...fact }: LimitsFact & { batch_id: string },
  facts: Pick<Facts, 'last' | 'put'>,
): Promise<void> {
  const series = limitsSeries(batch_id);
  const text = `${JSON.stringify(fact)}\n`;
  for (;;) {
    const last = await facts.last(series, -1);
    if (await facts.put({ series, n: (last?.n ?? -1) + 1, text })) return;
  }
}

/** The batch is started again by this run: changes of earlier runs are over. */
export async function restoreLimits(
  { batch_id, run }: { batch_id: string; run: string },
  facts: Pick<Facts, 'last' | 'put'>,
): Promise<void> {
  const last = await facts.last(limitsSeries(batch_id), -1);
  const before = last && readLimits(last.text);
  if (before === null || before.limits === null || before.run === run) return;
  await putLimits({ batch_id, run, limits: null }, facts);
}

type Changes = ReturnType<typeof foldChanges>;

function foldChanges(batch_id: string) {
  let all: LimitsChange = {};
  const own = new Map<string, LimitsChange>();
  return {
    take: ({ limits, rollout }: LimitsFact): void => {
      if (limits === null) {
        all = {};
        own.clear();
      } else if (rollout !== undefined) {
        const id = rolloutId({ batch_id, ...rollout });
        own.set(id, { ...all, ...own.get(id), ...limits });
      } else {
        all = { ...all, ...limits };
        for (const [id, before] of own) own.set(id, { ...before, ...limits });
      }
    },
    of: (ref: RolloutRef) => own.get(rolloutId(ref)) ?? all,
  };
}

export async function changesOf(batch_id: string, facts: Pick<Facts, 'news'>): Promise<Changes> {
  const changes = foldChanges(batch_id);
  for (const { text } of await facts.news([{ series: limitsSeries(batch_id), known: -1 }])) {
    const fact = readLimits(text);
    if (fact !== null) changes.take(fact);
  }
  return changes;
}

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
