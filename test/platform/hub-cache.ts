import { mkdir, writeFile } from 'node:fs/promises';
import path from 'node:path';

/** Writes files of a cache of the Hub. */
export async function cacheOf(folder: string, files: Record<string, string>): Promise<void> {
  for (const [name, text] of Object.entries(files)) {
    const file = path.join(folder, name);
    await mkdir(path.dirname(file), { recursive: true });
    await writeFile(file, text);
  }
}
