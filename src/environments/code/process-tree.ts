import { lstatSync, readdirSync, readFileSync, readlinkSync, statfsSync, statSync } from 'node:fs';
import path from 'node:path';

/**
 * What a process and all below it use, from /proc. Read in one go: between two reads a process could hide in the gap.
 * Linux only; elsewhere everything is 0.
 */

export interface TreeUsage {
  /** Resident and swapped memory that is no file's, in bytes. What forks share counts for each. */
  memory: number;
  /** Processes and threads. */
  tasks: number;
  /** User and system time, of ended children too. */
  cpu_ms: number;
  /** Files in the folder and deleted ones that are still open, in bytes. */
  disk: number;
}

export interface Tree {
  root: number;
  /** So many levels from the root down are ours: only their CPU time counts. */
  levels: number;
  /** The working directory; null: not to be measured. */
  folder: string | null;
  /** File systems of its own, whose size the kernel limits, but not how many files they have. */
  mounts: string[];
  /** Files beyond this size need not be counted. */
  disk_bound: number;
}

export function usageOf({ root, levels, folder, mounts, disk_bound }: Tree): TreeUsage {
  const usage = { memory: 0, tasks: 0, cpu_ms: 0, disk: 0 };
  const deleted = new Map<string, number>();
  let generation = [root];
  for (let level = 0; generation.length > 0; level++) {
    const [first] = generation;
    if (level === levels && first !== undefined) {
      for (const mount of mounts) usage.disk += sizeOfFiles(`/proc/${first}/root${mount}`);
    }
    for (const pid of generation) {
      usage.cpu_ms += cpuOf(pid);
      if (level < levels) continue;
      const { memory, tasks } = statusOf(pid);
      usage.memory += memory;
      usage.tasks += tasks;
      if (folder === null) continue;
      for (const [inode, bytes] of deletedFiles(pid, folder)) deleted.set(inode, bytes);
    }
    generation = generation.flatMap(childrenOf);
  }
  for (const bytes of deleted.values()) usage.disk += bytes;
  if (folder !== null) usage.disk += sizeOf(folder, disk_bound);
  return usage;
}

/** A process may be gone at any moment. */
function contentsOf(file: string): string {
  try {
    return readFileSync(file, 'utf8');
  } catch {
    return '';
  }
}

export function childrenOf(pid: number): number[] {
  const tasks = `/proc/${pid}/task`;
  return entriesOf(tasks).flatMap((task) =>
    contentsOf(`${tasks}/${task}/children`).split(' ').filter(Boolean).map(Number),
  );
}

function entriesOf(folder: string): string[] {
  try {
    return readdirSync(folder);
  } catch {
    return [];
  }
}

const TICK_MS = 10;

function cpuOf(pid: number): number {
  const stat = contentsOf(`/proc/${pid}/stat`);
  // The name, in parentheses, may hold anything; fields 14 to 17 of the whole are 12 to 15 behind it.
  const fields = stat.slice(stat.lastIndexOf(')') + 2).split(' ');
  return fields.slice(11, 15).reduce((total, ticks) => total + Number(ticks) * TICK_MS, 0);
}

/** A main thread that has ended shows neither memory nor files: its other threads do. */
const tasksOf = (pid: number): string[] =>
  entriesOf(`/proc/${pid}/task`).map((task) => `/proc/${pid}/task/${task}`);

function statusOf(pid: number): { memory: number; tasks: number } {
  const tasks = tasksOf(pid);
  let status = contentsOf(`/proc/${pid}/status`);
  for (const task of status.includes('RssAnon') ? [] : tasks) {
    status = contentsOf(`${task}/status`);
    if (status.includes('RssAnon')) break;
  }
  const number = (name: string): number =>
    Number(new RegExp(`^${name}:\\s+(\\d+)`, 'm').exec(status)?.[1] ?? 0);
  const memory = (number('RssAnon') + number('RssShmem') + number('VmSwap')) * 1024;
  return { memory, tasks: tasks.length };
}

const DELETED = ' (deleted)';

/** Deleted files of the folder that a process still has open or mapped, by inode. */
function deletedFiles(pid: number, folder: string): Map<string, number> {
  const files = new Map<string, number>();
  const count = (link: string): void => {
    try {
      const target = readlinkSync(link);
      if (!target.startsWith(folder) || !target.endsWith(DELETED)) return;
      const { dev, ino, blocks } = statSync(link);
      files.set(`${dev}:${ino}`, blocks * 512);
    } catch {
      // Gone, or not ours to follow (map_files asks for a capability).
    }
  };
  for (const task of tasksOf(pid)) {
    for (const file of entriesOf(`${task}/fd`)) count(`${task}/fd/${file}`);
    const maps = contentsOf(`${task}/maps`);
    if (!maps.includes(DELETED)) continue;
    for (const [range] of maps.matchAll(/^[0-9a-f]+-[0-9a-f]+(?=.* \(deleted\)$)/gm)) {
      count(`/proc/${pid}/map_files/${range}`);
    }
  }
  return files;
}

/** More than a block: walking them all is the worker's time. */
const ENTRY_BYTES = 16_384;

/** What cannot be looked at (no permission, a path that is too long) is too much. */
function sizeOf(folder: string, bound: number): number {
  let bytes = 0;
  const open = [folder];
  for (let current = open.pop(); current !== undefined; current = open.pop()) {
    if (bytes > bound) return bytes;
    try {
      for (const entry of readdirSync(current, { withFileTypes: true })) {
        const name = path.join(current, entry.name);
        bytes += ENTRY_BYTES;
        if (entry.isDirectory()) open.push(name);
        else bytes += lstatSync(name).blocks * 512;
      }
    } catch (error) {
      if (!isGone(error)) return Infinity;
    }
  }
  return bytes;
}

function sizeOfFiles(mount: string): number {
  try {
    const { files, ffree } = statfsSync(mount);
    return (files - ffree) * ENTRY_BYTES;
  } catch {
    return 0;
  }
}

const isGone = (error: unknown): boolean =>
  error instanceof Error && 'code' in error && error.code === 'ENOENT';
