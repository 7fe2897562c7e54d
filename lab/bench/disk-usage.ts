import { lstat, readdir } from 'node:fs/promises';
import path from 'node:path';

/** What a file system keeps of a folder: blocks, as `du` counts them, and files and folders. */
export async function diskUsage(folder: string): Promise<{ mb: number; inodes: number }> {
  const usage = { mb: 0, inodes: 0 };
  const names = await readdir(folder, { recursive: true }).catch(() => []);
  for (const name of ['', ...names]) {
    // One that goes meanwhile is not counted.
    const found = await lstat(path.join(folder, name)).catch(() => null);
    if (found === null) continue;
    usage.mb += (found.blocks * BLOCK_BYTES) / 1e6;
    usage.inodes += 1;
  }
  return usage;
}

/** In which `lstat` counts, on any file system. */
const BLOCK_BYTES = 512;
