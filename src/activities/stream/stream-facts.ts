import type { z } from 'zod';
import { Admitted, Dropped, Forgotten, GroupEnd, StepFact } from '../../model/stream/facts.js';
import type { Facts } from '../../trajectories/trajectory-store.js';
import type { FactsOf } from '../facts.js';
import { factsOf } from '../facts.js';
import type { DeliveredGroup } from '../../model/stream/facts.js';

export interface StreamFacts {
  /** By group, without gaps. */
  admitted: FactsOf<z.infer<typeof Admitted>>;
  /** By group. */
  ended: FactsOf<z.infer<typeof GroupEnd>>;
  /** By group. */
  dropped: FactsOf<z.infer<typeof Dropped>>;
  /** Without gaps. */
  steps: FactsOf<z.infer<typeof StepFact>>;
  /** In the order in which they were forgotten, without gaps. */
  forgotten: FactsOf<z.infer<typeof Forgotten>>;
}

export function streamFacts(stream_id: string, facts: Facts): StreamFacts {
  const of = <T>(kind: string, schema: z.ZodType<T>): FactsOf<T> =>
    factsOf([stream_id, kind], { schema, facts });
  return {
    admitted: of('admitted', Admitted),
    ended: of('ended', GroupEnd),
    dropped: of('dropped', Dropped),
    steps: of('steps', StepFact),
    forgotten: of('forgotten', Forgotten),
  };
}

/**
 * Groups of a step are decided: what its rows need of them is in the step's fact, so the facts of each group go when
 * the rows are written. Without this, every group would leave its facts for ever.
 */

type Step = z.infer<typeof StepFact>;

/** From the step's fact, or, before it is put, from the facts of the groups. */
export async function deliveredIn(
  { groups, delivered }: Pick<Step, 'groups' | 'delivered'>,
  { admitted, ended }: StreamFacts,
): Promise<z.infer<typeof DeliveredGroup>[]> {
  if (delivered !== undefined) return delivered;
  const found: z.infer<typeof DeliveredGroup>[] = [];
  for (const group of groups) {
    const { born = null } = (await admitted.find(group)) ?? {};
    const { members = null } = (await ended.find(group)) ?? {};
    found.push({ group, born, members });
  }
  return found;
}

/** Those that it delivers, and those that were discarded before it. */
export const decidedIn = ({ groups, out }: Pick<Step, 'groups' | 'out'>): number[] => [
  ...groups,
  ...out.map(({ group }) => group),
];

/** Repeatable, because an attempt may die in the middle. */
export async function forgetDecided(
  step: Pick<Step, 'groups' | 'out'>,
  { admitted, ended, dropped }: StreamFacts,
): Promise<void> {
  await dropped.forget(step.out.filter(({ as }) => as === 'dropped').map(({ group }) => group));
  for (const facts of [ended, admitted]) await facts.forget(decidedIn(step));
}
