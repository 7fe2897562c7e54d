import { z } from 'zod';
import type { AnswererFact, Answerers } from '../../gateway/agent-session.js';
import type { RolloutRef } from '../../model/batch-request.js';
import { isStoreFault } from '../../model/faults.js';
import { placeOfRollout } from '../../model/workflow-safe/rollout-id.js';
import type { TrajectoryStore } from '../../trajectories/trajectory-store.js';
import { factsOf } from '../facts.js';

const Answerer = z.strictObject({ url: z.string(), writer: z.string() });

/**
 * Facts of the store, one series a rollout: each attempt that answers it puts the next one. Only the last one counts, and
 * none is left behind the end.
 */
export function createAnswerers({
  facts,
  findEnd,
}: Pick<TrajectoryStore, 'facts' | 'findEnd'>): Answerers {
  const of = (rollout_id: string) =>
    factsOf(seriesOf(refOf(rollout_id)), {
      schema: Answerer,
      facts,
      name: `answerer of ${rollout_id}`,
    });
  return {
    take: async (rollout_id, { stillOurs, ...own }) => {
      const series = of(rollout_id);
      // Each round, another attempt was first; an attempt that is not the last one is no longer its journal's.
      for (;;) {
        const before = await series.last(-1);
        await stillOurs();
        if (isSame(await series.put((before?.n ?? -1) + 1, own), own)) return;
      }
    },
    find: async (rollout_id) => (await known(() => of(rollout_id).last(-1)))?.value ?? null,
    leave: async (rollout_id, own) => {
      const series = of(rollout_id);
      const last = await series.last(-1);
      if (last === null || !isSame(last.value, own)) return;
      await series.forget(Array.from({ length: last.n + 1 }, (_, n) => n));
    },
    isOver: async (rollout_id) => (await known(() => findEnd(refOf(rollout_id)))) !== null,
  };
}

const isSame = (one: AnswererFact, other: AnswererFact): boolean =>
  one.url === other.url && one.writer === other.writer;

/** A store that is away says nothing: who asks waits, and asks again. */
async function known<T>(ask: () => Promise<T | null>): Promise<T | null> {
  try {
    return await ask();
  } catch (error) {
    if (isStoreFault(error)) return null;
    throw error;
  }
}

/** Below the batch, and gone with it: a rollout that was terminated leaves its last one. */
const seriesOf = ({ batch_id, row, repeat }: RolloutRef) =>
  [batch_id, 'answerers', `${row}-${repeat}`] as const;

/** Of a key that this deployment has signed. */
const refOf = (rollout_id: string) => placeOfRollout(rollout_id) as RolloutRef;
