import type { Condition } from './conditions.js';
import { NUMBERS } from './conditions.js';
import type { Entry } from './entry.js';
import { inOrder, isFailed } from './entry.js';

export const SORTS = ['reward', 'tokens', 'length', 'turns', 'wall'] as const;
type Sort = (typeof SORTS)[number];

export interface Selection {
  where: Condition;
  /** Only those that ended without a row to train on. */
  failed: boolean;
  /** First rollouts with a reward, then failed ones, if the limit has room for them. */
  worst: boolean;
  /** null: in input order. */
  sort: { by: Sort; smallest_first: boolean } | null;
  /** null: all. */
  limit: number | null;
}

/** Rollouts without the value come last; equal ones stay in input order. */
export function select(entries: readonly Entry[], selection: Selection): Entry[] {
  const { where, failed, worst, sort, limit } = selection;
  const chosen = entries.filter(
    (entry) =>
      (!failed || isFailed(entry)) &&
      (!worst || entry.reward !== null || isFailed(entry)) &&
      where(entry),
  );
  chosen.sort(inOrder);
  if (sort !== null) {
    const value = NUMBERS[sort.by];
    const sign = sort.smallest_first ? 1 : -1;
    chosen.sort((a, b) => {
      const [x, y] = [value(a), value(b)];
      if (x === null || y === null) return Number(x === null) - Number(y === null);
      return sign * (x - y);
    });
  }
  return limit === null ? chosen : chosen.slice(0, limit);
}
