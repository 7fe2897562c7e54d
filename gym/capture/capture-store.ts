import { constants } from 'node:fs';
import { open, rm } from 'node:fs/promises';
import path from 'node:path';
import { exists, isMissing } from '../../src/platform/files.js';
import type { JsonObject } from '../json/exact.js';
import { isObject, numberOf, parseJson } from '../json/exact.js';

export interface Captured {
  /** With its line number, in the order of writing. */
  exchanges: { call_index: number; exchange: JsonObject }[];
  unreadable: number;
  /** A server could not write one of its calls. */
  is_incomplete: boolean;
}

/**
 * The folder where servers write their calls, from their configuration; null: they write none. Throws upstream's errors
 * if the folder is not usable.
 */
export function captureDir(gym: JsonObject): string | null {
  if (gym['observability_enabled'] !== true) return null;
  const dir = gym['model_call_capture_dir'] ?? null;
  if (dir === null)
    throw new Error('model_call_capture_dir is required when observability_enabled=true');
  if (typeof dir !== 'string' || !path.isAbsolute(dir))
    throw new Error('model_call_capture_dir must be an absolute path');
  return dir;
}

export type CaptureStore = ReturnType<typeof createCaptureStore>;

/**
 * The calls that NeMo Gym's model servers wrote: one file for each attempt at a row. The folder belongs to the servers.
 */
export function createCaptureStore(dir: string) {
  const fileOf = (rolloutId: string): string => path.join(dir, `${rolloutId}.capture.jsonl`);
  const markOf = (rolloutId: string): string => path.join(dir, `${rolloutId}.capture.incomplete`);
  return {
    /**
     * null: the attempt has no file. Lines that are not JSON objects are counted and skipped; calls that began before
     * `since` are left out.
     */
    read: async (rolloutId: string, since: number | null): Promise<Captured | null> => {
      const is_incomplete = await exists(markOf(rolloutId));
      const text = await textOf(fileOf(rolloutId));
      if (text === null && !is_incomplete) return null;
      const lines = (text ?? '')
        .split('\n')
        .filter((line) => line.trim() !== '')
        .map(objectOf)
        .filter((exchange) => exchange === null || !isBefore(exchange, since));
      const exchanges = lines.flatMap((exchange, call_index) =>
        exchange === null ? [] : [{ call_index, exchange }],
      );
      return { exchanges, unreadable: lines.length - exchanges.length, is_incomplete };
    },
    /** Call this before the attempt is played: an earlier run under the same id wrote about another play. */
    clear: async (rolloutId: string): Promise<void> => {
      await rm(fileOf(rolloutId), { force: true });
      await rm(markOf(rolloutId), { force: true });
    },
  };
}

const isBefore = ({ started_at }: JsonObject, since: number | null): boolean =>
  since !== null && (numberOf(started_at) ?? since) < since;

/** Size limit of a capture: parsed, each byte takes some fifty at worst. */
const MAX_BYTES = 32 * 1024 * 1024;

/** null: there is none. A link could lead to any file of this user's, and a pipe would be waited for without end. */
async function textOf(file: string): Promise<string | null> {
  const { O_RDONLY, O_NOFOLLOW, O_NONBLOCK } = constants;
  const handle = await open(file, O_RDONLY | O_NOFOLLOW | O_NONBLOCK).catch((error: unknown) => {
    if (isMissing(error)) return null;
    throw error;
  });
  if (handle === null) return null;
  try {
    const found = await handle.stat();
    if (!found.isFile()) throw new Error(`${file}: expected a file`);
    const { size } = found;
    if (size > MAX_BYTES)
      throw new Error(`${file}: expected at most ${MAX_BYTES} bytes, got ${size}`);
    const { buffer, bytesRead } = await handle.read(Buffer.alloc(size), 0, size, 0);
    return buffer.toString('utf8', 0, bytesRead);
  } finally {
    await handle.close();
  }
}

function objectOf(line: string): JsonObject | null {
  try {
    const value = parseJson(line);
    return isObject(value) ? value : null;
  } catch {
    return null;
  }
}
