import type { Trajectory } from '../../model/trajectory.js';

/** A trajectory as folded up to a byte offset of one particular file. */
export interface Fold {
  trajectory: Trajectory;
  offset: number;
  /** The file's first bytes: they hold its first writer's random id. A new file may get a deleted one's inode. */
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
  take(file: string): Fold | null;
  put(file: string, fold: Fold): void;
}

export function createFoldCache({ max_bytes }: { max_bytes: number }): FoldCache {
  const folds = new Map<string, Fold>();
  let bytes = 0;
  const take = (file: string): Fold | null => {
    const fold = folds.get(file);
    if (fold === undefined) return null;
    folds.delete(file);
    bytes -= fold.held;
    return fold;
  };
  return {
    take,
    put: (file, fold) => {
      take(file);
      folds.set(file, fold);
      bytes += fold.held;
      for (const oldest of folds.keys()) {
        if (bytes <= max_bytes) break;
        take(oldest);
      }
    },
  };
}
