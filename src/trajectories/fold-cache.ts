import type { Trajectory } from '../model/journal/trajectory.js';

/** A trajectory folded up to some place of one particular journal. */
export interface Fold {
  trajectory: Trajectory;
  /** Bytes in a file, rows in a table. */
  offset: number;
  /** Distinguishes the journal from another one of the same name after a deletion: it contains a writer's random id. */
  head: string;
  /** Upper bound of the memory that the trajectory takes, in bytes. */
  taken_bytes: number;
}

/**
 * Folds of journals that this process wrote last, so that a turn does not read earlier turns again. An entry is taken
 * out while it is in use, so two attempts never share a trajectory. The bytes are limited; the least recently used
 * entry goes first.
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
    bytes -= fold.taken_bytes;
    return fold;
  };
  return {
    take,
    put: (journal, fold) => {
      take(journal);
      folds.set(journal, fold);
      bytes += fold.taken_bytes;
      for (const oldest of folds.keys()) {
        if (bytes <= max_bytes) break;
        take(oldest);
      }
    },
  };
}
