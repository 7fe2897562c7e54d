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
export const LimitsFact = z.strictObject({
  /** null: the batch was started again, with the limits of its request. */
  limits: z
    .strictObject({ ...ChangedLimits.shape, rollout_timeout: z.string().exactOptional() })
    .nullable(),
  /** The only one that it concerns; absent: all of the batch. */
  rollout: z.object({ row: z.int(), repeat: z.int() }).exactOptional(),
  /** The workflow's run that put it. */
  run: z.string(),
});
export type LimitsFact = z.infer<typeof LimitsFact>;

export const limitsSeries = (batch_id: string): Series => [batch_id, 'limits'];

/** null: an unknown version wrote it. */
export function readLimits(text: string): LimitsFact | null {
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

export type Changes = ReturnType<typeof foldChanges>;

export function foldChanges(batch_id: string) {
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
    /** Those of one rollout. */
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
