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
import { refuseOurs, tasksOf } from './process-tree.js';

/** Disk use of code: files in its folder, and deleted files that its processes still hold. */

export interface Disk {
  /** The working directory; null: not measured. */
  folder: string | null;
  /** Its own file systems: the kernel limits their size, but not their number of files. */
  mounts: string[];
  /** Files beyond this size need not be counted. */
  disk_bound: number;
}

/** Limit of files, because walking them all takes time. */
const ENTRY_BYTES = 16_384;

/**
 * In bytes, or null if something moved during the measurement, or cannot be measured. Code chooses names, so they are
 * handled as bytes, and no path is taken from a link.
 */
export function diskUseOf(
  { folder, mounts, disk_bound }: Disk,
  processes: Process[],
): number | null {
  const [first] = processes;
  if (folder === null) {
    return first === undefined
      ? 0
      : mounts.reduce((total, mount) => total + sizeOfFiles(`/proc/${first.pid}/root${mount}`), 0);
  }
  try {
    const deleted = deletedFiles(folder, { processes, disk_bound });
    return deleted + sizeOf(folder, disk_bound);
  } catch (error) {
    refuseOurs(error);
    return null;
  }
}

function sizeOf(folder: string, bound: number): number {
  let bytes = 0;
  const open = [Buffer.from(folder)];
  for (let current = open.pop(); current !== undefined; current = open.pop()) {
    for (const entry of readdirSync(current, { withFileTypes: true, encoding: 'buffer' })) {
      if (bytes > bound) return bytes;
      const name = Buffer.concat([current, Buffer.from('/'), entry.name]);
      bytes += ENTRY_BYTES;
      if (entry.isDirectory()) open.push(name);
      else bytes += lstatSync(name).blocks * 512;
    }
  }
  return bytes;
}

interface Held {
  processes: Process[];
  disk_bound: number;
}

/** Each counts once, however many processes hold it. */
function deletedFiles(folder: string, { processes, disk_bound }: Held): number {
  const files = new Map<number, number>();
  let left = MAPS_BYTES;
  for (const one of processes) {
    if (one.has_ended && one.tasks === 1) continue;
    const of_task = `/proc/${one.pid}/task/${livingTask(one)}`;
    const links = readdirSync(`${of_task}/fd`).map((file) => `${of_task}/fd/${file}`);
    for (const link of [...links, `${of_task}/exe`]) {
      const { ino, bytes } = deletedAt(link);
      if (bytes > 0) files.set(ino, bytes);
    }
    const maps = contentsUpTo(left, `${of_task}/maps`);
    left -= maps.length;
    if (left <= 0) return Infinity;
    for (const [inode, range] of mappedDeleted(maps, folder)) {
      if (files.has(inode)) continue;
      files.set(inode, sizeOfMapped(`/proc/${one.pid}/map_files/${range}`) ?? disk_bound);
    }
  }
  return [...files.values()].reduce((total, bytes) => total + bytes, 0);
}

/** A main thread that has ended shows nothing; the others show the same files. */
const livingTask = ({ pid, has_ended }: Process): number =>
  has_ended ? (tasksOf(pid).find((task) => task !== pid) ?? pid) : pid;

/** The file that a process holds; 0 bytes if it is not on disk or not deleted. */
function deletedAt(link: string): { ino: number; bytes: number } {
  const status = statSync(link);
  const is_deleted = status.isFile() && status.nlink === 0 && !isInMemory(link);
  return { ino: status.ino, bytes: is_deleted ? status.blocks * 512 : 0 };
}

/** The runner's own file, which code cannot create. A path that is too long to read belongs to a file on disk. */
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

/** Deleted files of this folder that are mapped. */
function mappedDeleted(maps: Buffer, folder: string): [inode: number, range: string][] {
  if (!maps.includes(DELETED)) return [];
  const below = `${Buffer.from(folder).toString('latin1')}/`;
  return maps
    .toString('latin1')
    .split('\n')
    .filter((line) => line.endsWith(DELETED) && line.startsWith(below, line.indexOf('/')))
    .map((line) => {
      const [range = '', , , , inode] = line.split(' ', 5);
      return [Number(inode), range];
    });
}

/** null: this user may not ask (it requires a capability). Then the file counts as the largest possible. */
function sizeOfMapped(file: string): number | null {
  try {
    return statSync(file).blocks * 512;
  } catch (error) {
    if (error instanceof Error && 'code' in error && error.code === 'ENOENT') throw error;
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
