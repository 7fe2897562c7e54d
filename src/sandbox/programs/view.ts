import { existsSync, lstatSync, readFileSync, realpathSync } from 'node:fs';
import path from 'node:path';
import { installed, SYSTEM } from '../levels.js';
import type { Part } from './confinement.js';

/** What programs see of this machine, beside what python/sandbox/view.py makes for them. */

/** As they see it, in each life the same. Hosts have none of this name, which mounts could be below. */
export const FOLDER = '/rollout';
export const KEPT = '/kept';
const [TMP, SHM, HOME] = ['/tmp', '/dev/shm', '/tmp/home'] as const;
const SHARED = [FOLDER, TMP, SHM];
export const ROOTS = [...SHARED, KEPT];

/** Where a mount would hide what programs have there, or show all of this machine. */
const TAKEN = ['/', '/proc', '/dev', '/sys', ...SHARED];

/** Folders of the life on this machine, by where the command sees them. */
export interface View {
  /** Shares neither sockets nor memory with another command. */
  apart: boolean;
  cwd: string;
  writable: Readonly<Record<string, string>>;
  fixed: Readonly<Record<string, string>>;
  /** No link in `fixed` is followed: it could lead to what the program did not see. */
  hides: boolean;
  readable: readonly string[];
}

/** Names in the life's folder: what all its commands have, and what is one command's. */
export const COMMON = ['work', 'kept'];
export const ownOf = (name: string): string[] => [
  name,
  `${name}/tmp`,
  `${name}/tmp/home`,
  `${name}/shm`,
];

interface Seeing {
  name: string;
  mounts: readonly string[];
  submit_mounts: readonly string[];
  prefixes: readonly string[];
}

export function viewOf(part: Part, { name, mounts, submit_mounts, prefixes }: Seeing): View {
  const work = { [FOLDER]: 'work' };
  const own = { [TMP]: `${name}/tmp`, [SHM]: `${name}/shm` };
  const readable = readableWith(mounts);
  if (part === 'setup' || part === 'program') {
    const writable = { ...work, ...own };
    return { apart: part === 'setup', cwd: FOLDER, writable, fixed: {}, hides: false, readable };
  }
  const reading = { apart: true, cwd: HOME, writable: own, fixed: work, hides: false, readable };
  if (part === 'submit') {
    const seen = readableWith([...mounts, ...submit_mounts]);
    return { ...reading, hides: submit_mounts.length > 0, readable: seen };
  }
  const writable = { ...own, [KEPT]: 'kept' };
  return { ...reading, writable, readable: [...readableWith([]), ...prefixes.flatMap(installed)] };
}

/** null: programs can have these. */
export function problemOf(mounts: readonly string[]): string | null {
  for (const mount of [...mounts, ...pythonsOf(mounts)]) {
    const taken = TAKEN.find(
      (one) => mount === one || (one !== '/' && mount.startsWith(`${one}/`)),
    );
    if (taken !== undefined)
      return `expected mounts outside of ${TAKEN.slice(1).join(', ')}, and not all of /, got ${mount}`;
    if (!existsSync(mount))
      return `expected a file or folder of this host, got ${mount}, which does not exist`;
  }
  return null;
}

/** null: the program sees none of these. */
export function problemOfHidden(
  hidden: readonly string[],
  mounts: readonly string[],
): string | null {
  const shown = readableWith(mounts)
    .filter(existsSync)
    .map((one) => realpathSync(one));
  for (const one of hidden) {
    const real = existsSync(one) ? realpathSync(one) : one;
    const by = shown.find((mount) => real === mount || real.startsWith(`${mount}/`));
    if (by !== undefined)
      return `expected a path that the program cannot read, got ${one}, which is in ${by}: move it, or mount less`;
  }
  return problemOf(hidden);
}

/** The system's programs and libraries, and mounts: the outer before what is in them. */
const readableWith = (mounts: readonly string[]): string[] => [
  ...SYSTEM.filter((name) => !name.startsWith('/etc/')),
  ...[...mounts, ...pythonsOf(mounts)].sort(),
];

/** A virtual environment has links to the Python that it was made of, which may be in any folder. */
function pythonsOf(mounts: readonly string[]): string[] {
  const parts = mounts.flatMap((mount) => {
    const [, programs] = /^home *= *(\/.*)$/m.exec(contentOf(path.join(mount, 'pyvenv.cfg'))) ?? [];
    return programs === undefined ? [] : installed(path.dirname(programs));
  });
  return [...new Set(parts)].filter((part) => !SYSTEM.includes(part) && existsSync(part));
}

/** A mount with programs in it, a virtual environment or `node_modules`, has them found by their names. */
export function variablesWith(mounts: readonly string[]): Record<string, string> {
  const folders = mounts.flatMap((mount) => [
    path.join(mount, 'bin'),
    path.join(mount, '.bin'),
    mount,
  ]);
  const found = folders.filter((folder) => /\/\.?bin$/.test(folder) && isFolder(folder));
  return {
    PATH: [...new Set(found), '/usr/local/bin', '/usr/bin', '/bin'].join(':'),
    HOME,
    TMPDIR: TMP,
    LANG: 'C.UTF-8',
    USER: 'rollout',
    LOGNAME: 'rollout',
    SHELL: '/bin/bash',
  };
}

/** A path below a file is none. */
const isFolder = (name: string): boolean => existsSync(name) && lstatSync(name).isDirectory();

export function contentOf(file: string): string {
  try {
    return readFileSync(file, 'utf8').trim();
  } catch {
    return '';
  }
}
