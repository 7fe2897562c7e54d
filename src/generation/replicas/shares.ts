import { createWaitingLine } from '../../platform/waits/waiting-line.js';
import type { Sharer } from '../generation-service.js';

interface Wish {
  session_id: string;
  sharer: Sharer;
}

/**
 * A lower priority goes first. Among equals the one goes first that has the fewest slots for its share, so one with a
 * thousand generations waiting delays another one's first by one generation. `take`: a place, or null if there is none.
 */
export function createSharedLine<Place>(take: (session_id: string) => Place | null) {
  const taken = new Map<string, number>();
  const takenBy = ({ id }: Sharer): number => taken.get(id) ?? 0;
  const usedBy = (sharer: Sharer): number => takenBy(sharer) / sharer.share;
  const precedes = (one: Sharer, earlier: Sharer): boolean =>
    one.priority === earlier.priority
      ? usedBy(one) < usedBy(earlier)
      : one.priority < earlier.priority;
  const line = createWaitingLine(
    ({ session_id, sharer }: Wish) => {
      const place = take(session_id);
      if (place !== null) taken.set(sharer.id, takenBy(sharer) + 1);
      return place;
    },
    {
      kind: ({ sharer: { id, priority, share } }) => `${priority} ${share} ${id}`,
      precedes: (one, earlier) => precedes(one.sharer, earlier.sharer),
    },
  );
  return {
    ...line,
    givesBack: (sharer: Sharer): void => {
      const left = takenBy(sharer) - 1;
      if (left > 0) taken.set(sharer.id, left);
      else taken.delete(sharer.id);
      line.serve();
    },
  };
}
