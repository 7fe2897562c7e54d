import { statSync } from 'node:fs';
import path from 'node:path';
import type { BatchRequest } from '../model/batch-request.js';
import { isMissing } from './disk.js';
import { findRequest } from './file-batch.js';

const MAX_KEPT = 64;

/**
 * Reads the requests of batches, each once: every rollout of a batch asks for it, and one with its samples in it takes
 * milliseconds to parse. A file is put once and never changed, so that one which differs was put after a deletion.
 */
export function createRequestReader(): (directory: string) => Promise<BatchRequest | null> {
  const kept = new Map<string, { file: string; request: Promise<BatchRequest | null> }>();
  return async (directory) => {
    const file = identityOf(path.join(directory, 'batch.json'));
    if (file === null) return null;
    const known = kept.get(directory);
    if (known?.file === file) return await known.request;
    const request = findRequest(directory);
    kept.delete(directory);
    kept.set(directory, { file, request });
    for (const oldest of kept.keys()) {
      if (kept.size <= MAX_KEPT) break;
      kept.delete(oldest);
    }
    request.catch(() => kept.delete(directory));
    return await request;
  };
}

function identityOf(file: string): string | null {
  try {
    const { ino, size, mtimeMs } = statSync(file);
    return `${ino} ${size} ${mtimeMs}`;
  } catch (error) {
    if (isMissing(error)) return null;
    throw error;
  }
}
