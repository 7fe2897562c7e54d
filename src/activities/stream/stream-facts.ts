import type { z } from 'zod';
import type { DeliveredGroup, StepFact } from '../../model/stream/facts.js';
import { Admitted, Dropped, Forgotten, GroupEnd, StoredStep } from '../../model/stream/facts.js';
import type { Facts } from '../../trajectories/trajectory-store.js';
import type { FactsOf } from '../facts.js';
import { factsOf } from '../facts.js';

export type StreamFacts = ReturnType<typeof streamFacts>;

export function streamFacts(stream_id: string, facts: Facts) {
  const of = <T>(kind: string, schema: z.ZodType<T>): FactsOf<T> =>
    factsOf([stream_id, kind], { schema, facts });
  return {
    /** By group, without gaps. */
    admitted: of('admitted', Admitted),
    /** By group, like the next. */
    ended: of('ended', GroupEnd),
    dropped: of('dropped', Dropped),
    /** Without gaps. */
    steps: of('steps', StoredStep),
    /** In the order in which they were forgotten, without gaps. */
    forgotten: of('forgotten', Forgotten),
  };
}

/**
 * Groups of a step are decided: what its rows need of them is in the step's fact, so the facts of each group go when
 * the rows are written. Without this, every group would leave its facts for ever.
 */

/** Facts about its groups that a step needs when it is put. */
export async function deliveredIn(
  { groups }: Pick<StepFact, 'groups'>,
  { admitted, ended }: StreamFacts,
): Promise<DeliveredGroup[]> {
  const found: DeliveredGroup[] = [];
  for (const group of groups) {
    const { born = null } = (await admitted.find(group)) ?? {};
    const { members = null } = (await ended.find(group)) ?? {};
    found.push({ group, born, members });
  }
  return found;
}

/** The groups that it delivers, and those that were discarded before it. */
export const decidedIn = ({ groups, out }: Pick<StepFact, 'groups' | 'out'>): number[] => [
  ...groups,
  ...out.map(({ group }) => group),
];

/** Repeatable, because an attempt may die in the middle. */
export async function forgetDecided(
  step: Pick<StepFact, 'groups' | 'out'>,
  { admitted, ended, dropped }: StreamFacts,
): Promise<void> {
  await dropped.forget(step.out.filter(({ as }) => as === 'dropped').map(({ group }) => group));
  for (const facts of [ended, admitted]) await facts.forget(decidedIn(step));
}
