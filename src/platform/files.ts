import { randomUUID } from 'node:crypto';
import type { StatsFs } from 'node:fs';
import type { FileHandle } from 'node:fs/promises';
import {
  access,
  link,
  mkdir,
  open,
  readFile,
  rename,
  rm,
  rmdir,
  stat,
  statfs,
} from 'node:fs/promises';
import path from 'node:path';
import { readWhole } from './regular-file.js';
import { succeeds } from './waits/abort.js';
import { shared } from './waits/shared.js';
import { codeOf } from './errors.js';

/** Durable file operations: nothing is half-done under its final name. */

export const isMissing = (error: unknown): boolean => codeOf(error) === 'ENOENT';
/** null: there is no such file. */
export async function ifThere<T>(look: () => T | Promise<T>): Promise<T | null> {
  try {
    return await look();
  } catch (error) {
    if (isMissing(error)) return null;
    throw error;
  }
}

export const isThere = (error: unknown): boolean => codeOf(error) === 'EEXIST';

export const exists = (file: string): Promise<boolean> => succeeds(access(file));

/** Returns the first one that it made, step by step: Node.js' recursion reports ENOENT for a read-only disk. */
async function makePath(directory: string, mode: number): Promise<string | undefined> {
  try {
    await mkdir(directory, { mode });
    return directory;
  } catch (error) {
    if (isThere(error)) return undefined;
    if (!isMissing(error) || path.dirname(directory) === directory) throw error;
    const above = await makePath(path.dirname(directory), mode);
    await mkdir(directory, { mode }).catch((again: unknown) => {
      if (!isThere(again)) throw again;
    });
    return above ?? directory;
  }
}

const syncs = new Map<string, { sync: () => Promise<void>; waiting: number }>();

/** Its names survive a power cut. Those who ask while it is being synced share the next sync. */
export async function syncDirectory(directory: string): Promise<void> {
  const one = syncs.get(directory) ?? { sync: shared(() => syncNow(directory)), waiting: 0 };
  syncs.set(directory, one);
  one.waiting += 1;
  try {
    await one.sync();
  } finally {
    one.waiting -= 1;
    if (one.waiting === 0) syncs.delete(directory);
  }
}

async function syncNow(directory: string): Promise<void> {
  const handle = await open(directory, 'r');
  try {
    await handle.sync();
  } finally {
    await handle.close();
  }
}

/** Who may read a store, which holds prompts, tokens and the cookies of environments' sessions. */
export const READERS = ['owner', 'group', 'everyone'] as const;
export type Readers = (typeof READERS)[number];

const FILE_MODES: Record<Readers, number> = { owner: 0o600, group: 0o640, everyone: 0o644 };
const DIRECTORY_MODES: Record<Readers, number> = { owner: 0o700, group: 0o750, everyone: 0o755 };

/** The content of a file, or a function that writes it in order, only through the handle. */
type Content = string | Buffer | ((handle: FileHandle) => Promise<void>);

const USERS_FILE_MODE = 0o666;

/** Readers see the old or the new file, even after a power cut; after an error the old one. */
export const replaceFile = (
  file: string,
  { content, file_mode = USERS_FILE_MODE }: { content: Content; file_mode?: number },
): Promise<void> =>
  writeThrough(file, { content, file_mode, place: (temporary) => rename(temporary, file) });

export type Disk = ReturnType<typeof createDisk>;

/** Its owner may write the files that it makes, and these may read them. Existing files keep their permissions. */
export function createDisk(readers: Readers) {
  const file_mode = FILE_MODES[readers];
  return {
    file_mode,
    /** Creates a directory. Its entry, and those of the parents that it needed, survive a power cut. */
    makeDirectory: async (directory: string): Promise<void> => {
      const created = await makePath(directory, DIRECTORY_MODES[readers]);
      if (created === undefined) return;
      for (let made = directory; ; made = path.dirname(made)) {
        await syncDirectory(path.dirname(made));
        if (made === created) return;
      }
    },
    replaceFile: (file: string, content: Content): Promise<void> =>
      replaceFile(file, { content, file_mode }),
    /** Puts a file that may never change. Returns true if the file has this content afterwards, whoever wrote it. */
    putOnce: (file: string, content: Content): Promise<boolean> =>
      writeThrough(file, { content, file_mode, place: (temporary) => linkOnce(temporary, file) }),
  };
}

interface Writing<T> {
  content: Content;
  file_mode: number;
  place: (temporary: string) => Promise<T>;
}

/** Writes to a temporary name; `place` then gives it the final one. A full disk keeps nothing of it. */
async function writeThrough<T>(
  file: string,
  { content, file_mode, place }: Writing<T>,
): Promise<T> {
  const temporary = `${file}.${randomUUID().slice(0, 8)}.tmp`;
  let placed: T;
  try {
    const handle = await open(temporary, 'wx', file_mode);
    try {
      await (typeof content === 'function' ? content(handle) : handle.writeFile(content));
      await handle.sync();
    } finally {
      await handle.close();
    }
    placed = await place(temporary);
  } finally {
    await rm(temporary, { force: true });
  }
  await syncDirectory(path.dirname(file));
  return placed;
}

/** `link` refuses an existing name, so a race of two writers is safe. */
async function linkOnce(temporary: string, file: string): Promise<boolean> {
  try {
    await link(temporary, file);
    return true;
  } catch (error) {
    if (!isThere(error)) throw error;
    const [ours, theirs] = await Promise.all([readFile(temporary), readWhole(file)]);
    return ours.equals(theirs);
  }
}

/** As a store does; it leaves nothing, so another user's worker can write. Rejects if nothing can be written. */
export async function tryToWrite(directory: string, { readers }: { readers: Readers }) {
  const made = await makePath(directory, DIRECTORY_MODES[readers]);
  try {
    const { mode } = await writeThrough(path.join(directory, 'check'), {
      content: Buffer.alloc(TRIED_BYTES, 'check '),
      file_mode: FILE_MODES[readers],
      place: (temporary) => stat(temporary),
    });
    const file_system = await statfs(directory);
    const closed = (mode & FILE_MODES[readers]) === FILE_MODES[readers] ? null : 'the umask';
    return {
      /** Bytes. */
      free: file_system.bavail * file_system.bsize,
      /** Files that can still be made; Infinity: as many as there is room for. */
      inodes: inodesOf(file_system),
      /** Why the readers cannot read there: `the umask`, or a directory. null: they can. */
      closed: closed ?? (await closedAbove(directory, readers)),
      /** The path's first directory that was not there: a disk is not mounted, or a typing error. null: all were. */
      missing: made ?? null,
    };
  } finally {
    if (made !== undefined) await removeEmpty(directory, made);
  }
}

export type Tried = Awaited<ReturnType<typeof tryToWrite>>;

/** Some file systems have as many as there is room for, and count none. */
const inodesOf = ({ files, ffree }: StatsFs): number => (files === 0 ? Infinity : ffree);

const OTHERS_READ = 0o004;
const OTHERS_ENTER = 0o001;

/** The first directory, from here up, that not everyone can enter. Members of a group are not known here. */
async function closedAbove(directory: string, readers: Readers): Promise<string | null> {
  if (readers !== 'everyone') return null;
  let needed = OTHERS_READ | OTHERS_ENTER;
  for (let at = path.resolve(directory); ; at = path.dirname(at)) {
    const { mode } = await stat(at);
    if ((mode & needed) !== needed) return at;
    if (path.dirname(at) === at) return null;
    needed = OTHERS_ENTER;
  }
}

/** That nothing can be made because all inodes are used; null: there is another reason. */
export async function whyNoSpace(error: unknown): Promise<string | null> {
  if (codeOf(error) !== 'ENOSPC') return null;
  const { path: file } = error as NodeJS.ErrnoException;
  if (file === undefined) return null;
  const inodes = await statfs(path.dirname(file)).then(inodesOf, () => Infinity);
  return inodes > 0
    ? null
    : `all inodes of the file system are used (df -i ${path.dirname(file)}), so no file can be made`;
}

/** A database needs room for more than a line. */
const LEAST_ROOM = 2 ** 20;

/** Whether nothing more can be written to the directory's disk; false, too, where nobody knows. */
export async function isFull(directory: string): Promise<boolean> {
  const disk = await statfs(directory).catch(() => null);
  return disk !== null && (disk.bavail * disk.bsize < LEAST_ROOM || inodesOf(disk) === 0);
}

/** A block of any usual file system. */
const TRIED_BYTES = 4096;

/** Removes a directory and those above it up to `last`, as far as they are empty. */
async function removeEmpty(directory: string, last: string): Promise<void> {
  const isGone = await succeeds(rmdir(directory));
  if (isGone && directory !== last) await removeEmpty(path.dirname(directory), last);
}
