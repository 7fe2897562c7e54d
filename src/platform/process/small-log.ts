import { copyFile, stat, truncate } from 'node:fs/promises';

/** A stack may run for months, and what it waits for may be away for days. */
const MOST_BYTES = 64 * 2 ** 20;
const LOOK_MS = 60_000;

/** While a process appends to its log. Returns what ends the looks. */
export function keepSmall(logFile: string): () => void {
  const looking = setInterval(() => void cutLarge(logFile).catch(() => undefined), LOOK_MS);
  looking.unref();
  return () => {
    clearInterval(looking);
  };
}

/**
 * A log that has grown large becomes `<log>.1`, in place of the one before, and begins anew. It stays the same file, which
 * its writer has open; what is written while it is copied is lost. On a full disk all of it is.
 */
export async function cutLarge(logFile: string, most_bytes = MOST_BYTES): Promise<void> {
  if ((await stat(logFile)).size <= most_bytes) return;
  await copyFile(logFile, `${logFile}.1`).catch(() => undefined);
  await truncate(logFile);
}
