import type { z } from 'zod';
import type { DeliveredGroup, StepFact } from '../../model/stream/facts.js';
import type { StreamFacts } from './stream-facts.js';

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
