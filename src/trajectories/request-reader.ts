import type { StoredRequest } from '../model/stream/stream-request.js';

/** Distinguishes a request from another one of the same name after a deletion, and gives its size. */
export interface FoundRequest {
  identity: string;
  size: number;
}

/**
 * Reads the requests of batches, each once: every rollout of a batch needs it, and parsing one with inline samples
 * takes milliseconds. A request is put once and never changed, so a different one was put after a deletion. The bytes
 * are limited: the oldest goes first, and the latest stays however large it is.
 */
export function createRequestReader({
  max_bytes,
  find,
  read,
}: {
  max_bytes: number;
  /** null if there is none. */
  find: (batch: string) => FoundRequest | null | Promise<FoundRequest | null>;
  read: (batch: string) => Promise<StoredRequest | null>;
}): (batch: string) => Promise<StoredRequest | null> {
  const kept = new Map<string, Kept>();
  let bytes = 0;
  const drop = (batch: string): void => {
    bytes -= kept.get(batch)?.size ?? 0;
    kept.delete(batch);
  };
  return async (batch) => {
    const found = await find(batch);
    if (found === null) return null;
    const known = kept.get(batch);
    if (known?.identity === found.identity) return await known.request;
    const request = read(batch);
    drop(batch);
    kept.set(batch, { ...found, request });
    bytes += found.size;
    for (const oldest of kept.keys()) {
      if (bytes <= max_bytes || oldest === batch) break;
      drop(oldest);
    }
    request.catch(() => {
      if (kept.get(batch)?.request === request) drop(batch);
    });
    return await request;
  };
}

interface Kept extends FoundRequest {
  request: Promise<StoredRequest | null>;
}
