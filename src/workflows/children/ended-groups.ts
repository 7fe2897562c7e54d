import type { Member, MemberQueue } from './refill.js';

/** Which groups have ended: no member runs, and none will start. */
export interface EndedGroups {
  /** Takes a member from the queue. */
  next: () => Member | null;
  /** A member has ended, in any way. */
  ended: (row: number) => void;
}

/** Calls back once for each row. A group whose members were not started because of a stop never ends here. */
export function watchGroups(
  line: Pick<MemberQueue, 'next' | 'hasMore'>,
  onEnded: (row: number) => void,
): EndedGroups {
  const running = new Map<number, number>();
  const runningOf = (row: number): number => running.get(row) ?? 0;
  return {
    next: () => {
      const member = line.next();
      if (member !== null) running.set(member.row, runningOf(member.row) + 1);
      return member;
    },
    ended: (row) => {
      running.set(row, runningOf(row) - 1);
      if (runningOf(row) > 0 || line.hasMore(row)) return;
      running.delete(row);
      onEnded(row);
    },
  };
}
