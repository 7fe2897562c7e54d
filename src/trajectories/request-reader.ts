import { statSync } from 'node:fs';
import path from 'node:path';
import type { StoredRequest } from '../model/stream/stream-request.js';
import { isMissing } from '../platform/files.js';
import { findRequest } from './files/batch.js';

/**
 * Reads the requests of batches, each once: every rollout of a batch asks for it, and one with its samples in it takes
 * milliseconds to parse. A file is put once and never changed, so that one which differs was put after a deletion.
 * Bounded by the files' bytes: the oldest goes first, and the latest stays however large it is.
 */
export function createRequestReader({
  max_bytes,
}: {
  max_bytes: number;
}): (directory: string) => Promise<StoredRequest | null> {
  const kept = new Map<string, Kept>();
  let bytes = 0;
  const drop = (directory: string): void => {
    bytes -= kept.get(directory)?.size ?? 0;
    kept.delete(directory);
  };
  return async (directory) => {
    const found = findFile(path.join(directory, 'batch.json'));
    if (found === null) return null;
    const known = kept.get(directory);
    if (known?.identity === found.identity) return await known.request;
    const request = findRequest(directory);
    drop(directory);
    kept.set(directory, { ...found, request });
    bytes += found.size;
    for (const oldest of kept.keys()) {
      if (bytes <= max_bytes || oldest === directory) break;
      drop(oldest);
    }
    request.catch(() => {
      if (kept.get(directory)?.request === request) drop(directory);
    });
    return await request;
  };
}

interface FoundFile {
  identity: string;
  size: number;
}

interface Kept extends FoundFile {
  request: Promise<StoredRequest | null>;
}

function findFile(file: string): FoundFile | null {
  try {
    const { ino, size, mtimeMs } = statSync(file);
    return { identity: `${ino} ${size} ${mtimeMs}`, size };
  } catch (error) {
    if (isMissing(error)) return null;
    throw error;
  }
}
