import { readdir, readFile } from 'node:fs/promises';
import path from 'node:path';

/**
 * Environments that other processes of this machine serve to the stack of a folder, by name, with their URLs. Each is a
 * file `environments/<name, quoted as in URLs>.json` that its process writes and holds locked (durable_rollouts.local).
 * One whose process has ended stays: rollouts that use it wait for it.
 */
export async function servedIn(folder: string): Promise<Record<string, string>> {
  const files = path.join(folder, 'environments');
  const names = await readdir(files).catch((): string[] => []);
  const found: [string, string][] = [];
  for (const file of names.filter((name) => name.endsWith('.json')).sort()) {
    const url = await urlIn(path.join(files, file));
    if (url !== null) found.push([decodeURIComponent(file.slice(0, -'.json'.length)), url]);
  }
  return Object.fromEntries(found);
}

/** null: it is being written, or says nothing. */
async function urlIn(file: string): Promise<string | null> {
  try {
    const { url } = JSON.parse(await readFile(file, 'utf8')) as { url?: unknown };
    return typeof url === 'string' ? url : null;
  } catch {
    return null;
  }
}
