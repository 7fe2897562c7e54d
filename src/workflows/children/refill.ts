import type { RowRange } from '../../model/workflow-safe/slices.js';

/** A rollout's place in its batch. A replacement also names the repeat that failed. */
export interface Member {
  row: number;
  repeat: number;
  replaces?: number;
}

/** Which rollout comes next: replacements of failed ones first, then the members of all groups in input order. */
export interface MemberQueue {
  /** No rollout is waiting, as far as is known now. */
  isEmpty(): boolean;
  next(): Member | null;
  /** Members that have not begun, without replacements. */
  waiting: () => number;
  /** Queues a replacement: next, or when more replacements are allowed. Replacements keep the order of failures. */
  failed(member: Member): void;
  /** Whether a member of this row may still begin. false for a group that has enough. */
  hasMore: (row: number) => boolean;
  /** Sets how many replacements there may be in total. */
  allow: (replacements: number) => void;
}

/** At 14 events each, stop or cancel included, they take half of a history. The rest is for changes of limits. */
export const MOST_CHILDREN = 340;

/**
 * Replacements are numbered from `num_repeats` upwards within their group, so a restarted batch finds their journals.
 */
export function queueMembers({
  rows,
  num_repeats,
  max_replacements,
  isOver = () => false,
}: {
  rows: RowRange;
  num_repeats: number;
  /** null: no replacements, now or later. */
  max_replacements: number | null;
  /** Whether the group of this row needs no more members. This never changes back. */
  isOver?: (row: number) => boolean;
}): MemberQueue {
  const members = (rows.last - rows.first + 1) * num_repeats;
  const failed: Member[] = [];
  const replacedOfRow = new Map<number, number>();
  let begun = 0;
  let replaced = 0;
  let most = max_replacements ?? 0;

  const mayReplace = (): boolean =>
    failed.length > 0 && replaced < most && members + replaced < MOST_CHILDREN;

  const replacement = (): Member | null => {
    const member = mayReplace() ? failed.shift() : undefined;
    if (member === undefined) return null;
    const { row, repeat: replaces } = member;
    const earlier = replacedOfRow.get(row) ?? 0;
    replacedOfRow.set(row, earlier + 1);
    replaced += 1;
    return { row, repeat: num_repeats + earlier, replaces };
  };

  const rowAt = (at: number): number => rows.first + Math.floor(at / num_repeats);

  /** The index after the row's own members. */
  const endOf = (row: number): number => (row - rows.first + 1) * num_repeats;

  /** The first needed member that has not begun. */
  const upcoming = (): number => {
    while (begun < members && isOver(rowAt(begun))) begun += 1;
    return begun;
  };

  const original = (): Member | null => {
    const at = upcoming();
    if (at === members) return null;
    begun += 1;
    return { row: rowAt(at), repeat: at % num_repeats };
  };

  return {
    isEmpty: () => upcoming() === members && !mayReplace(),
    next: () => replacement() ?? original(),
    waiting: () => members - begun,
    failed: (member) => {
      if (max_replacements !== null) failed.push(member);
    },
    hasMore: (row) =>
      (begun < endOf(row) && !isOver(row)) || failed.some((member) => member.row === row),
    allow: (replacements) => {
      most = replacements;
    },
  };
}
