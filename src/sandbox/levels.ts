import path from 'node:path';
import type { Folders } from './folders.js';
import { isRoot, randomUid } from './folders.js';
import type { Python } from './python.js';
import { BOOTSTRAP } from './python.js';
import type { Limits } from './limits.js';
import { findProgram } from './programs/find-program.js';

/** How an interpreter is started, level by level, from the strongest. */

export const LEVELS = ['bubblewrap+landlock+seccomp', 'landlock+seccomp', 'unsafe'] as const;
export type Level = (typeof LEVELS)[number];

export interface Launch {
  command: string;
  args: string[];
  env: Record<string, string>;
  /** User and group id; null: the worker's own. */
  uid: number | null;
  /**
   * Where it may write on this machine's disk, and then it leads a process group of its own; null: it has its own file
   * system, and is in the started process's group.
   */
  folder: string | null;
  mounts: string[];
  /** Processes from the started one to the interpreter, including the first. */
  levels: number;
  hello: Record<string, unknown>;
}

export interface Launcher {
  level: Level;
  /** The path of `bwrap`; null: not on this machine. */
  bubblewrap: string | null;
  python: Python;
  limits: Limits;
  max_sandboxes: number;
  semantics: string;
  folders: Folders;
}

/** The environment: nothing of the worker's. One thread per library, and a fixed order of sets. */
const environmentOf = (home: string): Record<string, string> => ({
  PATH: '/usr/local/bin:/usr/bin:/bin',
  HOME: home,
  TMPDIR: home,
  LANG: 'C.UTF-8',
  PYTHONHASHSEED: '0',
  PYTHONDONTWRITEBYTECODE: '1',
  MALLOC_ARENA_MAX: '2',
  OMP_NUM_THREADS: '1',
  OPENBLAS_NUM_THREADS: '1',
  MKL_NUM_THREADS: '1',
});

/**
 * The system's loader, libraries and programs. Without /etc, /home, /var, /proc, /sys, and without all of /usr:
 * applications with their data may be in /usr/src or /usr/local.
 */
const PARTS = ['bin', 'sbin', 'lib', 'lib32', 'lib64', 'libx32', 'libexec', 'include'];
/** Below a folder that may contain much else, above all in a home folder. */
export const installed = (prefix: string): string[] => PARTS.map((part) => path.join(prefix, part));
export const SYSTEM = [
  ...[...installed('/'), ...installed('/usr'), '/usr/share', ...installed('/usr/local')],
  ...['/usr/local/share', '/etc/ld.so.cache', '/etc/localtime'],
];

const readableOf = ({ prefixes }: Python): string[] => [
  ...SYSTEM,
  ...prefixes.flatMap((prefix) => [...installed(prefix), `${prefix}/pyvenv.cfg`]),
];

const interpreter = ({ executable }: Python): string[] => [executable, '-s', '-c', BOOTSTRAP];

/** Claims a temporary folder if one is needed; `seed` makes `random` repeatable. */
export async function prepareLaunch(
  { level, bubblewrap, python, limits, max_sandboxes, semantics, folders }: Launcher,
  seed: string,
): Promise<Launch> {
  const { max_output, memory, disk, processes } = limits;
  // The watcher ends what it sees as excess; this limits what is faster than that.
  const others = Math.ceil((processes * max_sandboxes) / 4);
  // With its own id, RLIMIT_NPROC counts only this sandbox. It does not apply to root at all.
  const has_own_uid = isRoot() && level !== 'unsafe';
  const owns_other_files = !has_own_uid && level === 'landlock+seccomp';
  const common = { main: 'runner', seed, semantics, level, max_output, owns_other_files };
  const limited = (tasks: number | null) => ({ memory, disk, processes: tasks, others });
  if (level === 'bubblewrap+landlock+seccomp') {
    if (bubblewrap === null) throw new Error('no bwrap on PATH');
    const hello = {
      ...common,
      guarded: false,
      folder: null,
      // In its own user namespace, beside bubblewrap itself.
      limits: limited(processes + 1),
      readable: [...readableOf(python), '/proc'],
      writable: [HOME, '/dev/shm'],
    };
    const args = [...bubblewrapArgs(python, disk), '--', ...interpreter(python)];
    const env = environmentOf(HOME);
    const uid = has_own_uid ? randomUid() : null;
    return {
      ...{ command: bubblewrap, args, env, uid, folder: null, mounts: [HOME, '/dev/shm'] },
      ...{ levels: 2, hello },
    };
  }
  const { folder, uid } = await folders.claim(has_own_uid);
  const hello = {
    ...common,
    guarded: true,
    folder,
    limits: limited(uid === null ? null : processes + 1),
    readable: readableOf(python),
    writable: [folder],
  };
  const [command = '', ...args] = interpreter(python);
  return {
    ...{ command, args, env: environmentOf(folder), uid, folder, mounts: [] },
    ...{ levels: 1, hello },
  };
}

const HOME = '/work';

function bubblewrapArgs(python: Python, disk: number): string[] {
  const readable = readableOf(python).flatMap((name) => ['--ro-bind-try', name, name]);
  return [
    ...['--unshare-user', '--unshare-pid', '--unshare-net', '--unshare-ipc', '--unshare-uts'],
    ...['--unshare-cgroup-try', '--disable-userns', '--die-with-parent', '--cap-drop', 'ALL'],
    ...readable,
    ...['--proc', '/proc', '--dev', '/dev', '--size', String(disk), '--tmpfs', HOME],
    ...['--size', String(disk), '--tmpfs', '/dev/shm', '--remount-ro', '/dev', '--remount-ro', '/'],
    ...['--chdir', HOME],
  ];
}

/** What a level means, for people who start a worker; empty for the strongest. */
export function meaningOf(level: Level): string {
  if (level === 'bubblewrap+landlock+seccomp') return '';
  if (level === 'unsafe') return '. Nothing is around it: it may do whatever this worker may';
  const user = isRoot() ? 'has user ids of its own' : "has this worker's user";
  return `. It ${user} and shares this machine's namespaces and disk: Landlock and seccomp alone hold it. With bubblewrap (bwrap on PATH) it has its own`;
}

/** On the worker's PATH, which differs from the interpreter's. */
export const findBubblewrap = (): Promise<string | null> =>
  findProgram('bwrap', {
    PATH: absoluteIn(process.env['PATH'] ?? ''),
    folder: '/',
  });

const absoluteIn = (folders: string): string =>
  folders
    .split(path.delimiter)
    .filter((name) => path.isAbsolute(name))
    .join(path.delimiter);
