import type { RolloutEntry } from '../documents.js';
import { keyOf, sortedBy } from './rows.js';
import { meanOf } from './sums.js';

/** Rollouts of the same sample and repeat in two runs. */
export interface Pair {
  row: number;
  repeat: number;
  a: RolloutEntry | null;
  b: RolloutEntry | null;
  /** Of the reward; null: one side has none. */
  change: number | null;
}

export function pairsOf(as: readonly RolloutEntry[], bs: readonly RolloutEntry[]): Pair[] {
  const pairs = new Map<string, Pair>();
  for (const a of as) pairs.set(keyOf(a), { ...placeOf(a), a, b: null, change: null });
  for (const b of bs) {
    const a = pairs.get(keyOf(b))?.a ?? null;
    const [before, after] = [a?.reward ?? null, b.reward];
    const change = before === null || after === null ? null : after - before;
    pairs.set(keyOf(b), { ...placeOf(b), a, b, change });
  }
  return [...pairs.values()];
}

export const isBoth = ({ a, b }: Pair): boolean => a !== null && b !== null;

const placeOf = ({ row, repeat }: RolloutEntry): { row: number; repeat: number } => ({
  row,
  repeat,
});

const VALUES: Record<string, (pair: Pair) => number | string | null> = {
  rollout: ({ row, repeat }) => row + repeat / 1e6,
  change: ({ change }) => change,
  a: ({ a }) => a?.reward ?? null,
  b: ({ b }) => b?.reward ?? null,
  tokens_a: ({ a }) => a?.tokens ?? null,
  tokens_b: ({ b }) => b?.tokens ?? null,
  ended_a: ({ a }) => a?.ended ?? null,
  ended_b: ({ b }) => b?.ended ?? null,
};

export const sortedPairs = (pairs: readonly Pair[], sort: string): Pair[] =>
  sortedBy(pairs, { sort, values: VALUES });

export function tallyOf(pairs: readonly Pair[]): {
  up: number;
  down: number;
  same: number;
  /** On one side without a reward. */
  unpaid: number;
  /** In one run alone. */
  alone: number;
  mean_change: number | null;
} {
  const changes = pairs.flatMap(({ change }) => change ?? []);
  return {
    up: changes.filter((change) => change > 0).length,
    down: changes.filter((change) => change < 0).length,
    same: changes.filter((change) => change === 0).length,
    unpaid: pairs.filter(isBoth).length - changes.length,
    alone: pairs.filter((pair) => !isBoth(pair)).length,
    mean_change: meanOf(changes),
  };
}
