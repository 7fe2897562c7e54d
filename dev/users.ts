import { mkdir, readdir, readFile, rm } from 'node:fs/promises';
import path from 'node:path';
import { replaceFile } from '../src/platform/files.js';
import type { ProcessIdentity } from '../src/platform/process/identity.js';
import { identify, isAlive } from '../src/platform/process/identity.js';

/**
 * The processes that a stack was started for, a file each: `users/<pid>.json` in its folder. Whoever leaves removes its
 * own file. `kept.json` is of no process, and keeps the stack that runs.
 */
export type User = number | 'kept';

const KEPT = 'kept.json';

/** `left`: all of them have removed their files. `dead`: those whose files are there have ended without that. */
export type Use = 'used' | 'left' | 'dead';

const usersIn = (folder: string): string => path.join(folder, 'users');

/** A process does so before it looks what runs: a stack looks once more for users after it has said that it ends. */
export async function noteUser(folder: string, user: User): Promise<void> {
  await mkdir(usersIn(folder), { recursive: true, mode: 0o700 });
  const content = user === 'kept' ? '{}' : JSON.stringify(await identify(user));
  await replaceFile(path.join(usersIn(folder), `${user}.json`), { content });
}

/** For a stack that starts: nobody keeps it, and users that have ended are not its own. */
export async function forgetEarlier(folder: string): Promise<void> {
  await rm(path.join(usersIn(folder), KEPT), { force: true });
  await forgetDead(folder);
}

/** Whoever comes is the one that the stack has waited for. */
export async function forgetDead(folder: string): Promise<void> {
  for (const file of await filesOf(folder))
    if (!(await isUsing(file))) await rm(file, { force: true });
}

export async function useOf(folder: string): Promise<Use> {
  const files = await filesOf(folder);
  for (const file of files) if (await isUsing(file)) return 'used';
  return files.length === 0 ? 'left' : 'dead';
}

async function filesOf(folder: string): Promise<string[]> {
  const names = await readdir(usersIn(folder)).catch((): string[] => []);
  return names
    .filter((name) => name.endsWith('.json'))
    .map((name) => path.join(usersIn(folder), name));
}

async function isUsing(file: string): Promise<boolean> {
  if (path.basename(file) === KEPT) return true;
  try {
    return await isAlive(JSON.parse(await readFile(file, 'utf8')) as ProcessIdentity);
  } catch {
    return false;
  }
}
