import type { Trajectory } from '../model/trajectory.js';

/** A trajectory as folded up to a place of one particular journal. */
export interface Fold {
  trajectory: Trajectory;
  /** In a file, bytes; in a table, rows. */
  offset: number;
  /** What tells the journal from another under its name, after a deletion: it holds a writer's random id. */
  head: string;
  /** Bytes of memory that the trajectory takes, at most. */
  held: number;
}

/**
 * Folds of journals that this process wrote last, so that a turn does not read the turns before it. An entry is taken
 * out while it is used: two attempts never share a trajectory. Bounded by the bytes that they hold; the least
 * recently used goes first.
 */
export interface FoldCache {
  take(journal: string): Fold | null;
  put(journal: string, fold: Fold): void;
}

export function createFoldCache({ max_bytes }: { max_bytes: number }): FoldCache {
  const folds = new Map<string, Fold>();
  let bytes = 0;
  const take = (journal: string): Fold | null => {
    const fold = folds.get(journal);
    if (fold === undefined) return null;
    folds.delete(journal);
    bytes -= fold.held;
    return fold;
  };
  return {
    take,
    put: (journal, fold) => {
      take(journal);
      folds.set(journal, fold);
      bytes += fold.held;
      for (const oldest of folds.keys()) {
        if (bytes <= max_bytes) break;
        take(oldest);
      }
    },
  };
}
