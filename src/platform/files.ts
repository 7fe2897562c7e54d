import { randomUUID } from 'node:crypto';
import type { FileHandle } from 'node:fs/promises';
import { access, constants, link, mkdir, open, readFile, rename, rm, stat } from 'node:fs/promises';
import path from 'node:path';

/** The few ways in which this project touches a disk where it must last: durable, and never half-done under a final name. */

export const isMissing = (error: unknown): boolean => hasCode(error, 'ENOENT');
const isThere = (error: unknown): boolean => hasCode(error, 'EEXIST');

const hasCode = (error: unknown, code: string): boolean =>
  error instanceof Error && 'code' in error && error.code === code;

/** Returns the first directory that was made. Step by step: Node.js' own recursion says ENOENT of a disk that can only be read. */
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

export async function syncDirectory(directory: string): Promise<void> {
  const handle = await open(directory, 'r');
  try {
    await handle.sync();
  } finally {
    await handle.close();
  }
}

/** Who may read what a store holds: prompts, tokens, the cookies of environments' sessions. */
export const READERS = ['owner', 'group', 'everyone'] as const;
export type Readers = (typeof READERS)[number];

const FILE_MODES: Record<Readers, number> = { owner: 0o600, group: 0o640, everyone: 0o644 };
const DIRECTORY_MODES: Record<Readers, number> = { owner: 0o700, group: 0o750, everyone: 0o755 };

/** What a file is to hold, or what writes it: to the handle alone, in order. */
type Content = string | Buffer | ((handle: FileHandle) => Promise<void>);

/** Rights of a file of the user's own: the umask takes from them. */
const USERS_FILE_MODE = 0o666;

/**
 * Replaces a file at once: readers see the old one or the new one, also after a power cut. An error leaves the old one,
 * and nothing beside it.
 */
export const replaceFile = (
  file: string,
  { content, file_mode = USERS_FILE_MODE }: { content: Content; file_mode?: number },
): Promise<void> =>
  writeThrough(file, { content, file_mode, place: (temporary) => rename(temporary, file) });

/** What is made on it is its owner's to write, and for these to read. What is there already stays as it is. */
export interface Disk {
  /** Of a file that is made. */
  readonly file_mode: number;
  /** Creates a directory and makes its entry, and those of the parents that it needed, survive a power cut. */
  makeDirectory(directory: string): Promise<void>;
  /** As the function of this name, with these rights. */
  replaceFile(file: string, content: Content): Promise<void>;
  /** Puts a file that may never change: true if it stands there with this content, by whoever's hand. */
  putOnce(file: string, content: Content): Promise<boolean>;
}

export function createDisk(readers: Readers): Disk {
  const file_mode = FILE_MODES[readers];
  return {
    file_mode,
    makeDirectory: async (directory) => {
      const created = await makePath(directory, DIRECTORY_MODES[readers]);
      if (created === undefined) return;
      for (let made = directory; ; made = path.dirname(made)) {
        await syncDirectory(path.dirname(made));
        if (made === created) return;
      }
    },
    replaceFile: (file, content) => replaceFile(file, { content, file_mode }),
    putOnce: async (file, content) => {
      let same = true;
      await writeThrough(file, {
        content,
        file_mode,
        place: async (temporary) => {
          same = await linkOnce(temporary, file);
        },
      });
      return same;
    },
  };
}

/** A name beside `file` that no one else uses, for what is not yet whole. */
const temporaryName = (file: string): string => `${file}.${randomUUID().slice(0, 8)}.tmp`;

/** Writes through a temporary name, of which nothing is left on a disk that fills up; `place` gives the final one. */
async function writeThrough(
  file: string,
  {
    content,
    file_mode,
    place,
  }: { content: Content; file_mode: number; place: (temporary: string) => Promise<void> },
): Promise<void> {
  const temporary = temporaryName(file);
  try {
    const handle = await open(temporary, 'wx', file_mode);
    try {
      await (typeof content === 'function' ? content(handle) : handle.writeFile(content));
      await handle.sync();
    } finally {
      await handle.close();
    }
    await place(temporary);
  } finally {
    await rm(temporary, { force: true });
  }
  await syncDirectory(path.dirname(file));
}

/** `link` refuses an existing name, which makes the race of two writers safe. */
async function linkOnce(temporary: string, file: string): Promise<boolean> {
  try {
    await link(temporary, file);
    return true;
  } catch (error) {
    if (!isThere(error)) throw error;
    const [ours, theirs] = await Promise.all([readFile(temporary), readFile(file)]);
    return ours.equals(theirs);
  }
}

/** Rejects where nothing can be written below a directory, whether it is there or would have to be made. */
export async function checkWritable(directory: string): Promise<void> {
  try {
    if (!(await stat(directory)).isDirectory()) throw new Error(`${directory} is no directory`);
    await access(directory, constants.W_OK | constants.X_OK);
  } catch (error) {
    if (!isMissing(error)) throw error;
    await checkWritable(path.dirname(directory));
  }
}
