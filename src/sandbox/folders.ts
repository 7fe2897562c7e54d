import { chown, lstat, mkdtemp, readdir, rmdir } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { z } from 'zod';
import { describeError } from '../platform/errors.js';
import { isMissing } from '../platform/files.js';
import { jsonIn } from '../platform/json/object.js';
import { runCommand } from '../platform/process/run-command.js';
import type { Program } from './python.js';
import { BOOTSTRAP } from './python.js';

/**
 * Folders on this machine's disk that code writes to. A folder's guard removes it with its interpreter. What it could
 * not remove, and what killed guards left behind, is removed from here by a process with rights to that folder alone.
 */

interface Claim {
  folder: string;
  /** Its owner; null: the worker's own user. */
  uid: number | null;
}

interface FoldersOptions extends Program {
  report: (message: string) => void;
  /** A younger folder may not have a guard yet. */
  sweep_after_ms?: number;
}

const prefix = (): string => path.join(tmpdir(), 'rollout-code-');
/** systemd gives no user one of these ids, and containers have them too. */
const FIRST_UID = 60_578;
const UIDS = 600;
const CLAIMS = 20;
const SWEEP_AFTER_MS = 60_000;
const [MIN_PAUSE_MS, MAX_PAUSE_MS] = [1000, 60_000];
const REMOVE_MS = 60_000;
const IN_USE = 'in use';

export const isRoot = (): boolean => process.getuid?.() === 0;

export const randomUid = (): number => FIRST_UID + Math.floor(Math.random() * UIDS);

export type Folders = ReturnType<typeof createFolders>;

export function createFolders(options: FoldersOptions) {
  const { report, sweep_after_ms = SWEEP_AFTER_MS } = options;
  /** When each may be tried again, and the length of the previous pause. */
  const left = new Map<string, { at: number; pause_ms: number }>();

  const keep = (folder: string, why: string): void => {
    const before = left.get(folder);
    if (before === undefined) {
      report(
        `code: cannot remove ${folder}: ${why}; it is tried again when code runs, and by the next worker`,
      );
    }
    const pause_ms = Math.min(MAX_PAUSE_MS, (before?.pause_ms ?? MIN_PAUSE_MS / 2) * 2);
    left.set(folder, { at: Date.now() + pause_ms, pause_ms });
  };
  const removeAll = async (folders: string[]): Promise<void> => {
    for (const folder of folders) {
      const why = await remove(folder, options).catch(describeError);
      if (why === null) left.delete(folder);
      else if (why !== IN_USE || left.has(folder)) keep(folder, why);
    }
  };
  const due = (): string[] => {
    const found = [...left].filter(([, { at }]) => at <= Date.now());
    // Not twice at the same time.
    for (const [, one] of found) one.at = Infinity;
    return found.map(([folder]) => folder);
  };

  return {
    async claim(has_own_uid: boolean): Promise<Claim> {
      void removeAll(due());
      return await claimFolder(has_own_uid);
    },
    /** For a folder that no code uses. Never rejects: one that stays is reported and tried again. */
    release: (folder: string) => removeAll([folder]),
    /** Removes folders that ended workers left behind. Never rejects. */
    async sweep(): Promise<void> {
      const found = await abandonedFolders(sweep_after_ms).catch(() => []);
      await removeAll(found);
    },
  };
}

/** The folder's name claims the id: no two sandboxes of this machine share one, even in different workers. */
async function claimFolder(has_own_uid: boolean): Promise<Claim> {
  if (!has_own_uid) return { folder: await mkdtemp(prefix()), uid: null };
  for (let attempt = 0; attempt < CLAIMS; attempt++) {
    const uid = randomUid();
    const folder = await folderOf(uid);
    if (folder === null) continue;
    await chown(folder, uid, uid);
    return { folder, uid };
  }
  throw new Error(`no user id is free: remove old folders ${prefix()}*`);
}

/** null: a sandbox has this id. Names that another user has taken claim nothing. */
async function folderOf(uid: number): Promise<string | null> {
  const start = `${prefix()}${uid}x`;
  const folder = await mkdtemp(start);
  // Made first and looked then: of two workers that claim the same id, one at least sees the other.
  for (const name of await readdir(tmpdir())) {
    const other = path.join(tmpdir(), name);
    if (!other.startsWith(start) || other === folder || (await isOfOthers(other))) continue;
    await rmdir(folder);
    return null;
  }
  return folder;
}

/** false also for what has just been removed. */
async function isOfOthers(name: string): Promise<boolean> {
  const status = await lstat(name).catch(() => null);
  return status !== null && !isOfSandboxes(status.uid);
}

async function abandonedFolders(age_ms: number): Promise<string[]> {
  const names = (await readdir(tmpdir())).map((name) => path.join(tmpdir(), name));
  const found: string[] = [];
  for (const name of names.filter((name) => name.startsWith(prefix()))) {
    const status = await lstat(name).catch(() => null);
    if (status?.isDirectory() !== true || !isOfSandboxes(status.uid)) continue;
    if (Date.now() - status.ctimeMs >= age_ms) found.push(name);
  }
  return found;
}

const isOfSandboxes = (uid: number): boolean =>
  uid === process.getuid?.() || (isRoot() && uid >= FIRST_UID && uid < FIRST_UID + UIDS);

const Said = z.object({ left: z.string().nullable() });

/** null once it is gone, else why not. Under root its owner removes it, because code wrote its content. */
async function remove(folder: string, { python, modules }: Program): Promise<string | null> {
  // Usually the guard has removed it, or failed only because the folder above belongs to someone else.
  const isGone = (): Promise<boolean> => rmdir(folder).then(() => true, isMissing);
  if (await isGone()) return null;
  const { uid } = await lstat(folder);
  const hello = { modules, main: 'removal', folder, confined: process.platform === 'linux' };
  const { stdout, problem } = await runCommand({
    ...{ command: python.executable, args: ['-I', '-c', BOOTSTRAP] },
    ...{ cwd: '/', env: { LANG: 'C.UTF-8' }, input: `${JSON.stringify(hello)}\n` },
    ...(isRoot() && { user: { uid, gid: uid } }),
    timeoutMs: REMOVE_MS,
  });
  if (await isGone()) return null;
  return Said.safeParse(jsonIn(stdout)).data?.left ?? (problem || 'the reason is not known');
}
