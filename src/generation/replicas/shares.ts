import type { Sharer } from '../generation-service.js';

/** Who holds how many slots. */
export interface Shares {
  takes: (sharer: Sharer) => void;
  givesBack: (sharer: Sharer) => void;
  /** Whether this one gets the next slot, although the other one has waited longer. */
  precedes: (one: Sharer, earlier: Sharer) => boolean;
}

/** All that say nothing of themselves. */
export const NOBODY: Sharer = { id: '', priority: 3, share: 1 };

/**
 * A lower priority goes first. Among equals the one goes first that holds the fewest slots for its share, so one with a
 * thousand generations waiting delays another one's first by one generation.
 */
export function createShares(): Shares {
  const held = new Map<string, number>();
  const heldBy = ({ id }: Sharer): number => held.get(id) ?? 0;
  const usedBy = (sharer: Sharer): number => heldBy(sharer) / sharer.share;
  return {
    takes: (sharer) => {
      held.set(sharer.id, heldBy(sharer) + 1);
    },
    givesBack: (sharer) => {
      const left = heldBy(sharer) - 1;
      if (left > 0) held.set(sharer.id, left);
      else held.delete(sharer.id);
    },
    precedes: (one, earlier) =>
      one.priority === earlier.priority
        ? usedBy(one) < usedBy(earlier)
        : one.priority < earlier.priority,
  };
}
