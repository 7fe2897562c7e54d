import type { Stats } from 'node:fs';
import { closeSync, constants, fstatSync, openSync, readFileSync } from 'node:fs';
import type { FileHandle } from 'node:fs/promises';
import { open } from 'node:fs/promises';

/**
 * Opens what should be a file. Opening a pipe waits until somebody writes, and holds a thread, or the whole process; a
 * device may have no end. So what is no file is an error that says so.
 */

const { O_NONBLOCK, O_RDONLY } = constants;

/** Pipes that a shell makes of `<(…)` and of standard input. */
const OF_SHELL = /^\/dev\/(stdin|fd\/\d+)$|^\/proc\/(self|\d+)\/fd\/\d+$/;

export interface Expected {
  /** For messages; default: a file. */
  what?: string;
  /** Whether a device will do. */
  devices?: boolean;
}

export function openFile(
  file: string,
  { flags = O_RDONLY, mode, ...expected }: Expected & { flags?: number; mode?: number } = {},
): number {
  if (OF_SHELL.test(file)) return openSync(file, flags, mode);
  const fd = openSync(file, flags | O_NONBLOCK, mode);
  try {
    check(file, { found: fstatSync(fd), expected });
    return fd;
  } catch (error) {
    closeSync(fd);
    throw error;
  }
}

export async function openToRead(file: string): Promise<FileHandle> {
  if (OF_SHELL.test(file)) return await open(file);
  const handle = await open(file, O_RDONLY | O_NONBLOCK);
  try {
    check(file, { found: await handle.stat(), expected: {} });
    return handle;
  } catch (error) {
    await handle.close();
    throw error;
  }
}

export async function readWhole(file: string): Promise<Buffer> {
  const handle = await openToRead(file);
  try {
    return await handle.readFile();
  } finally {
    await handle.close();
  }
}

export function readWholeNow(file: string): Buffer {
  const fd = openFile(file);
  try {
    return readFileSync(fd);
  } finally {
    closeSync(fd);
  }
}

function check(
  file: string,
  { found, expected: { what = 'a file', devices = false } }: { found: Found; expected: Expected },
): void {
  const kind = kindOf(found);
  if (kind === null || (devices && kind === 'a device')) return;
  throw new Error(`${file}: expected ${what}, got ${kind}; move it away`);
}

const KINDS = {
  isFIFO: 'a pipe',
  isDirectory: 'a directory',
  isCharacterDevice: 'a device',
  isBlockDevice: 'a device',
  isSocket: 'a socket',
} as const;

type Found = Pick<Stats, keyof typeof KINDS>;

/** null: a file. */
function kindOf(found: Found): string | null {
  for (const [is, kind] of Object.entries(KINDS)) if (found[is as keyof Found]()) return kind;
  return null;
}
