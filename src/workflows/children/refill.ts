import type { Place } from '../../model/workflow-safe/rollout-id.js';
import type { RowRange } from '../../model/workflow-safe/slices.js';

/** A rollout's place in its batch. A replacement also names the repeat that failed. */
export interface Member extends Place {
  replaces?: number;
}

/** At 14 events each, stop or cancel included, they take half of a history. The rest is for changes of limits. */
export const MOST_CHILDREN = 340;

interface Queue {
  rows: RowRange;
  num_repeats: number;
  /** null: no replacements, now or later. */
  max_replacements: number | null;
  /** A group with this many valid rollouts has enough: no more of its members begin; null: never. */
  k?: number | null;
  /** Called once for each row none of whose members runs or will: not for those that a stop keeps from beginning. */
  onEnded?: ((row: number) => void) | undefined;
}

/**
 * Which rollout comes next: replacements of failed ones first, then the members of all groups in input order.
 * Replacements are numbered from `num_repeats` upwards within their group, so a restarted batch finds their journals.
 */
export function queueMembers({ rows, num_repeats, max_replacements, k = null, onEnded }: Queue) {
  const members = (rows.last - rows.first + 1) * num_repeats;
  const failed: Member[] = [];
  const groups = new Map<number, { running: number; valid: number; replaced: number }>();
  let begun = 0;
  let replaced = 0;
  let most = max_replacements ?? 0;

  const groupOf = (row: number) => {
    const group = groups.get(row) ?? { running: 0, valid: 0, replaced: 0 };
    groups.set(row, group);
    return group;
  };
  const hasEnough = (row: number): boolean => k !== null && groupOf(row).valid >= k;

  const mayReplace = (): boolean =>
    failed.length > 0 && replaced < most && members + replaced < MOST_CHILDREN;

  const replacement = (): Member | null => {
    const member = mayReplace() ? failed.shift() : undefined;
    if (member === undefined) return null;
    const { row, repeat: replaces } = member;
    replaced += 1;
    return { row, repeat: num_repeats + groupOf(row).replaced++, replaces };
  };

  const rowAt = (at: number): number => rows.first + Math.floor(at / num_repeats);

  /** The first needed member that has not begun. */
  const upcoming = (): number => {
    while (begun < members && hasEnough(rowAt(begun))) begun += 1;
    return begun;
  };

  const original = (): Member | null => {
    const at = upcoming();
    if (at === members) return null;
    begun += 1;
    return { row: rowAt(at), repeat: at % num_repeats };
  };

  /** Whether a member of this row may still begin. */
  const hasMore = (row: number): boolean =>
    (begun < (row - rows.first + 1) * num_repeats && !hasEnough(row)) ||
    failed.some((member) => member.row === row);

  return {
    /** No rollout is waiting, as far as is known now. */
    isEmpty: () => upcoming() === members && !mayReplace(),
    next: (): Member | null => {
      const member = replacement() ?? original();
      if (member !== null) groupOf(member.row).running += 1;
      return member;
    },
    hasEnough,
    /** Counts one more valid rollout. Returns whether its group has just got enough. */
    valid: (row: number): boolean => (groupOf(row).valid += 1) === k,
    /** Queues a replacement: next, or when more replacements are allowed. Replacements keep the order of failures. */
    failed: (member: Member): void => {
      if (max_replacements !== null) failed.push(member);
    },
    /** A member has ended, in any way. */
    ended: (row: number): void => {
      const group = groupOf(row);
      group.running -= 1;
      if (group.running === 0 && !hasMore(row)) onEnded?.(row);
    },
    /** Sets how many replacements there may be in total. */
    allow: (replacements: number): void => {
      most = replacements;
    },
  };
}
