import {
  closeSync,
  lstatSync,
  openSync,
  readdirSync,
  readlinkSync,
  readSync,
  statfsSync,
  statSync,
} from 'node:fs';
import type { Process } from './process-tree.js';
import { isEnding, refuseOurs, tasksOf } from './process-tree.js';
import { codeOf } from '../../platform/errors.js';
import { isMissing } from '../../platform/files.js';

/** Disk use of code: files in its folder, and deleted files that its processes still hold; and memory that they share. */

export interface Disk {
  /** The working directory; null: not measured. */
  folder: string | null;
  /**
   * Where code that has its own view of the machine sees parts of its folder. It is never stopped, so that what moves
   * during a measurement is missed in that one; and it may share memory, which is measured then. Of a mapped file
   * whose size this user may not see counts what is mapped.
   */
  roots?: string[];
  /** Its own file systems: the kernel limits their size, but not their number of files. */
  mounts: string[];
  /** Files beyond this size need not be counted. */
  disk_bound: number;
}

/** In bytes. `shared`: memory that is a file's without a name. */
export interface Use {
  disk: number;
  shared: number;
}
export const NOTHING_USED: Use = { disk: 0, shared: 0 };

/** Limit of files, because walking them all takes time. */
const ENTRY_BYTES = 16_384;

/**
 * null: something moved during the measurement, or cannot be measured. Code chooses names, so they are handled as
 * bytes, and no path is taken from a link. `may_end`: processes that are about to end, which no stop keeps from it, are
 * left out. Where the machine is busy that takes them a while, and what only they hold goes with them.
 */
export function useOf(
  { folder, mounts, disk_bound, roots }: Disk,
  { processes, may_end }: { processes: Process[]; may_end: boolean },
): Use | null {
  const [first] = processes;
  if (folder === null) {
    if (first === undefined) return NOTHING_USED;
    const sizes = mounts.map((mount) => sizeOfFiles(`/proc/${first.pid}/root${mount}`));
    return { disk: sizes.reduce((total, bytes) => total + bytes, 0), shared: 0 };
  }
  try {
    const may_move = roots !== undefined;
    const deleted = deletedFiles({
      processes,
      disk_bound,
      may_move,
      may_end,
      roots: roots ?? [folder],
    });
    return { ...deleted, disk: deleted.disk + sizeOf(folder, { bound: disk_bound, may_move }) };
  } catch (error) {
    refuseOurs(error);
    return null;
  }
}

function sizeOf(folder: string, { bound, may_move }: { bound: number; may_move: boolean }): number {
  let bytes = 0;
  const open = [Buffer.from(folder)];
  for (let current = open.pop(); current !== undefined; current = open.pop()) {
    const here = current;
    for (const entry of unlessGone(may_move, () => entriesOf(here)) ?? []) {
      if (bytes > bound) return bytes;
      const name = Buffer.concat([here, Buffer.from('/'), entry.name]);
      bytes += ENTRY_BYTES;
      if (entry.isDirectory()) open.push(name);
      else bytes += unlessGone(may_move, () => lstatSync(name).blocks * 512) ?? 0;
    }
  }
  return bytes;
}

const entriesOf = (folder: Buffer) =>
  readdirSync(folder, { withFileTypes: true, encoding: 'buffer' });

const GONE = new Set<unknown>(['ENOENT', 'ESRCH', 'ENOTDIR', 'ELOOP']);

/** null: it has gone, and may. */
function unlessGone<T>(may_move: boolean, look: () => T): T | null {
  try {
    return look();
  } catch (error) {
    if (may_move && GONE.has(codeOf(error))) return null;
    throw error;
  }
}

interface Search {
  processes: Process[];
  disk_bound: number;
  may_move: boolean;
  may_end: boolean;
  roots: string[];
}

/** Files without a name, by their numbers: each counts once, however many processes hold it. */
interface Nameless {
  disk: Map<number, number>;
  shared: Map<number, number>;
  /** Bytes of lists of mappings that may still be read. */
  left: number;
}

function deletedFiles({ processes, may_move, may_end, ...search }: Search): Use {
  const files: Nameless = { disk: new Map(), shared: new Map(), left: MAPS_BYTES };
  const sum = (bytes: Map<number, number>): number =>
    [...bytes.values()].reduce((total, one) => total + one, 0);
  for (const one of processes) {
    if (one.has_ended && one.tasks === 1) continue;
    try {
      addDeleted(files, { one, may_move, ...search });
    } catch (error) {
      const may_have_gone = may_move || (may_end && one.tasks === 1);
      if (!may_have_gone || !isEnding(one.pid)) throw error;
    }
    if (files.left <= 0) return { disk: Infinity, shared: 0 };
  }
  // Code that is stopped for its looks cannot share memory.
  return { disk: sum(files.disk), shared: may_move ? sum(files.shared) : 0 };
}

function addDeleted(
  files: Nameless,
  { one, roots, disk_bound, may_move }: Omit<Search, 'processes' | 'may_end'> & { one: Process },
): void {
  const of_task = `/proc/${one.pid}/task/${livingTask(one)}`;
  const links = readdirSync(`${of_task}/fd`).map((file) => `${of_task}/fd/${file}`);
  for (const link of [...links, `${of_task}/exe`]) {
    const found = unlessGone(may_move, () => deletedAt(link));
    if (found !== null && found.bytes > 0) files[found.kind].set(found.ino, found.bytes);
  }
  const maps = contentsUpTo(files.left, `${of_task}/maps`);
  files.left -= maps.length;
  for (const { kind, inode, range } of mappedDeleted(maps, roots)) {
    if (files[kind].has(inode)) continue;
    const bytes = unlessGone(may_move, () => sizeOfMapped(`/proc/${one.pid}/map_files/${range}`));
    files[kind].set(inode, bytes ?? (may_move ? lengthOf(range) : disk_bound));
  }
}

const lengthOf = (range: string): number => {
  const [from = 0, to = 0] = range.split('-').map((end) => Number.parseInt(end, 16));
  return to - from;
};

/** A main thread that has ended shows nothing; the others show the same files. */
const livingTask = ({ pid, has_ended }: Process): number =>
  has_ended ? (tasksOf(pid).find((task) => task !== pid) ?? pid) : pid;

/** The file that a process holds; 0 bytes if it is not deleted. */
function deletedAt(link: string): { kind: keyof Use; ino: number; bytes: number } {
  const status = statSync(link);
  const is_deleted = status.isFile() && status.nlink === 0;
  const kind = is_deleted && isInMemory(link) ? 'shared' : 'disk';
  return { kind, ino: status.ino, bytes: is_deleted ? status.blocks * 512 : 0 };
}

/** A path that is too long to read belongs to a file on disk. */
function isInMemory(link: string): boolean {
  try {
    return readlinkSync(link).startsWith('/memfd:');
  } catch {
    return false;
  }
}

/** For all processes of a tree together: reading more takes too long. */
const MAPS_BYTES = 16 * 2 ** 20;

function contentsUpTo(bound: number, file: string): Buffer {
  const chunks: Buffer[] = [];
  const handle = openSync(file, 'r');
  try {
    for (let bytes = 0; bytes < bound;) {
      const chunk = Buffer.allocUnsafe(65_536);
      const read = readSync(handle, chunk);
      if (read === 0) break;
      chunks.push(chunk.subarray(0, read));
      bytes += read;
    }
    return Buffer.concat(chunks);
  } finally {
    closeSync(handle);
  }
}

const DELETED = ' (deleted)';
/** Memory that processes share: `mmap` without a file, `memfd_create`, System V. */
const SHARED = ['/dev/zero', '/memfd:', '/SYSV'];

/** Deleted files of these folders that are mapped, and shared memory. */
function mappedDeleted(
  maps: Buffer,
  roots: string[],
): { kind: keyof Use; inode: number; range: string }[] {
  if (!maps.includes(DELETED)) return [];
  const below = roots.map((root) => `${Buffer.from(root).toString('latin1')}/`);
  return maps
    .toString('latin1')
    .split('\n')
    .filter((line) => line.endsWith(DELETED))
    .flatMap((line) => {
      const at = (start: string): boolean => line.startsWith(start, line.indexOf('/'));
      const kind = below.some(at) ? 'disk' : SHARED.some(at) ? 'shared' : null;
      const [range = '', , , , inode] = line.split(' ', 5);
      return kind === null ? [] : [{ kind, inode: Number(inode), range }];
    });
}

/** null: this user may not ask (it requires a capability). Then the file counts as the largest possible. */
function sizeOfMapped(file: string): number | null {
  try {
    return statSync(file).blocks * 512;
  } catch (error) {
    if (isMissing(error)) throw error;
    return null;
  }
}

function sizeOfFiles(mount: string): number {
  try {
    const { files, ffree } = statfsSync(mount);
    return (files - ffree) * ENTRY_BYTES;
  } catch {
    return 0;
  }
}
