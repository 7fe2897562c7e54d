import type { Trajectory } from '../model/journal/trajectory.js';
import type { StoredRequest } from '../model/stream/stream-request.js';

/** What a process keeps of a store in memory, up to so many bytes. */

/** Values by name, the oldest first. `least`: how many stay, however large they are. */
function createKept<T>(
  sizeOf: (value: T) => number,
  { max_bytes, least = 0 }: { max_bytes: number; least?: number },
) {
  const kept = new Map<string, { value: T; size: number }>();
  let bytes = 0;
  const take = (name: string): T | null => {
    const found = kept.get(name);
    if (found === undefined) return null;
    kept.delete(name);
    bytes -= found.size;
    return found.value;
  };
  return {
    find: (name: string): T | undefined => kept.get(name)?.value,
    take,
    put: (name: string, value: T): void => {
      take(name);
      const size = sizeOf(value);
      kept.set(name, { value, size });
      bytes += size;
      for (const oldest of kept.keys()) {
        if (bytes <= max_bytes || kept.size <= least) break;
        take(oldest);
      }
    },
  };
}

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
 * out while it is in use, so two attempts never share a trajectory.
 */
export const createFoldCache = (bounds: { max_bytes: number }) =>
  createKept<Fold>(({ taken_bytes }) => taken_bytes, bounds);
export type FoldCache = ReturnType<typeof createFoldCache>;

/** Distinguishes a request from another one of the same name after a deletion, and gives its size. */
export interface FoundRequest {
  identity: string;
  size: number;
}

export interface Requests {
  look: (batchId: string) => FoundRequest | null | Promise<FoundRequest | null>;
  read: (batchId: string) => Promise<StoredRequest | null>;
}

/**
 * Reads the requests of batches, each once: every rollout of a batch needs it, and parsing one with inline samples
 * takes milliseconds. A request is put once and never changed, so a different one was put after a deletion. The latest
 * stays however large it is.
 */
export function createRequestReader(
  { look, read }: Requests,
  max_bytes: number,
): (batch: string) => Promise<StoredRequest | null> {
  type Kept = FoundRequest & { request: Promise<StoredRequest | null> };
  const kept = createKept<Kept>(({ size }) => size, { max_bytes, least: 1 });
  return async (batch) => {
    const found = await look(batch);
    if (found === null) return null;
    const known = kept.find(batch);
    if (known?.identity === found.identity) return await known.request;
    const request = read(batch);
    kept.put(batch, { ...found, request });
    request.catch(() => {
      if (kept.find(batch)?.request === request) kept.take(batch);
    });
    return await request;
  };
}
