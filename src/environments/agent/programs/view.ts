import { existsSync, lstatSync } from 'node:fs';
import path from 'node:path';
import { installed, SYSTEM } from '../../code/sandbox/levels.js';
import { contentOf } from './host.js';

/** What programs see of this machine, beside what python/sandbox/view.py makes for them. */

/** As they see it, in each life the same. Hosts have none of this name, which mounts could be below. */
export const FOLDER = '/rollout';
/** Their folders, by the names that these have in the life's folder on this machine. */
export const WRITABLE: Readonly<Record<string, string>> = {
  [FOLDER]: 'work',
  '/tmp': 'tmp',
  '/dev/shm': 'shm',
};

/** Where a mount would hide what programs have there, or show all of this machine. */
const TAKEN = ['/', '/proc', '/dev', '/sys', ...Object.keys(WRITABLE)];

/** null: programs can have these. */
export function problemOf(mounts: readonly string[]): string | null {
  for (const mount of [...mounts, ...pythonsOf(mounts)]) {
    const taken = TAKEN.find(
      (one) => mount === one || (one !== '/' && mount.startsWith(`${one}/`)),
    );
    if (taken !== undefined)
      return `expected mounts outside of ${TAKEN.slice(1).join(', ')}, and not all of /, got ${mount}`;
    if (!existsSync(mount))
      return `expected a file or folder of this host, there is none at ${mount}`;
  }
  return null;
}

/** The system's programs and libraries, and mounts: the outer before what is in them. */
export const readableWith = (mounts: readonly string[]): string[] => [
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
    HOME: FOLDER,
    TMPDIR: '/tmp',
    LANG: 'C.UTF-8',
    USER: 'rollout',
    LOGNAME: 'rollout',
    SHELL: '/bin/bash',
  };
}

/** A path below a file is none. */
const isFolder = (name: string): boolean => existsSync(name) && lstatSync(name).isDirectory();
