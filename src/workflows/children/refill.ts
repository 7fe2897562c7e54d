import type { RowRange } from '../../model/workflow-safe/slices.js';

/** A rollout's place in its batch; that of a replacement names the repeat that failed. */
export interface Member {
  row: number;
  repeat: number;
  replaces?: number;
}

/** Who is played next: the members of all groups in input order, and before them whoever replaces one that failed. */
export interface MemberQueue {
  /** Nobody is to be played, as far as is known now. */
  isEmpty(): boolean;
  next(): Member | null;
  /** Members that have not begun; replacements are not counted. */
  waiting: () => number;
  /** It is replaced: next, or when more replacements are allowed. In the order in which members fail. */
  failed(member: Member): void;
  /** How many replacements there may be, from the beginning. */
  allow: (replacements: number) => void;
}

/** At 14 events each, stop or cancel included, half of what a history may have: the rest is for changes of limits. */
export const MOST_CHILDREN = 340;

/** Replacements are numbered on from `num_repeats`, each group on its own: started again, a batch finds their journals. */
export function queueMembers({
  rows,
  num_repeats,
  max_replacements,
  isOver = () => false,
}: {
  rows: RowRange;
  num_repeats: number;
  /** 0: nobody is replaced. */
  max_replacements: number;
  /** Does the group of this row need no more members? Once it does not, it never will. */
  isOver?: (row: number) => boolean;
}): MemberQueue {
  const members = (rows.last - rows.first + 1) * num_repeats;
  const failed: Member[] = [];
  const replacedOfRow = new Map<number, number>();
  let begun = 0;
  let replaced = 0;
  let most = max_replacements;

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

  /** The first of those that have not begun and are needed. */
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
      failed.push(member);
    },
    allow: (replacements) => {
      most = replacements;
    },
  };
}
