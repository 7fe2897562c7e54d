/** Ids of a turn, or of an agent's call: those that it was asked, or those that were sampled. */
export interface TurnIds {
  turn: number;
  of: 'prompt' | 'answer';
  ids: readonly number[];
}

/** The first id that differs; null: one has no more. */
export interface TokenParting extends Omit<TurnIds, 'ids'> {
  index: number;
  a: number | null;
  b: number | null;
}

/** Where two rollouts part; null: nowhere. A browser reads this file, too. */
export function firstApart(
  ours: readonly TurnIds[],
  theirs: readonly TurnIds[],
): TokenParting | null {
  const longer = ours.length > theirs.length ? ours : theirs;
  for (const [at, { turn, of }] of longer.entries()) {
    const [a, b] = [ours[at]?.ids ?? [], theirs[at]?.ids ?? []];
    const index = (a.length > b.length ? a : b).findIndex((_, place) => a[place] !== b[place]);
    if (index !== -1) return { turn, of, index, a: a[index] ?? null, b: b[index] ?? null };
  }
  return null;
}
