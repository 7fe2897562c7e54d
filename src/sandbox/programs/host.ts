import { readFileSync } from 'node:fs';
import { runCommand } from '../../platform/process/run-command.js';
import { isRoot, randomUid } from '../folders.js';
import type { Python } from '../python.js';
import { findPythons } from '../python.js';
import type { ProgramLimits } from './confinement.js';
import type { Ready } from './launcher.js';

/** What this host gives to the sandbox of programs, and what to do where it does not. */

/** Under root another user runs it, too: what removes a life's folder. */
export async function pythonHere(): Promise<Python> {
  const { pythons, problems } = await findPythons(null);
  for (const python of pythons) {
    const why = await problemOf(python);
    if (why === null) return python;
    problems.push(`${python.executable}: ${why}`);
  }
  const of = isRoot() ? ' that users other than root can run' : '';
  throw new Error(`expected Python 3.10 or later${of}, got none: ${problems.join('; ')}`);
}

const TRY_MS = 20_000;

async function problemOf({ executable }: Python): Promise<string | null> {
  if (!isRoot()) return null;
  const uid = randomUid();
  const { ok, problem } = await runCommand({
    ...{ command: executable, args: ['-I', '-c', 'pass'], cwd: '/', env: {} },
    ...{ user: { uid, gid: uid }, timeoutMs: TRY_MS },
  });
  return ok ? null : `${problem} as another user`;
}

/** One line each. */
export function linesOf(
  { landlock, refused, bounded_sysv }: Ready,
  { memory, processes, disk }: ProgramLimits,
): string[] {
  const mib = (bytes: number): string => `${Math.round(bytes / 2 ** 20)} MiB`;
  return [
    'namespaces: user, mount, network, process, ipc, uts, cgroup',
    `user: ${isRoot() ? 'an id of its own for each life' : "this worker's, without its rights"}`,
    `Landlock: version ${landlock}${landlock < 6 ? ', without signals and abstract sockets (6)' : ''}`,
    `seccomp: ${refused} system calls refused${bounded_sysv ? '' : ', shared memory of System V among them'}`,
    'cgroup: none used; a watching thread has the limits of a whole life',
    `limits of a life: ${mib(memory)} memory, ${processes} processes and threads, ${mib(disk)} of files`,
  ];
}

/** Why there are no namespaces, where the system says it. */
const REASONS: [file: string, is: (value: string) => boolean, remedy: string][] = [
  [
    '/proc/sys/user/max_user_namespaces',
    (value) => value === '0',
    'user.max_user_namespaces is 0: set it with sysctl',
  ],
  [
    '/proc/sys/kernel/unprivileged_userns_clone',
    (value) => value === '0' && !isRoot(),
    'kernel.unprivileged_userns_clone is 0: set it to 1 with sysctl',
  ],
  [
    '/proc/sys/kernel/apparmor_restrict_unprivileged_userns',
    (value) => value === '1' && !isRoot(),
    'kernel.apparmor_restrict_unprivileged_userns is 1: set it to 0 with sysctl, or give this worker a profile',
  ],
];

export function remedyFor(why: string): string {
  const found = REASONS.find(([file, is]) => is(contentOf(file)))?.[2];
  if (found !== undefined) return found;
  if (why.startsWith('/proc of its own'))
    return 'this container hides parts of /proc (Docker: --security-opt systempaths=unconfined)';
  if (why.startsWith('namespaces'))
    return 'this container refuses namespaces (Docker: --security-opt seccomp=unconfined)';
  return '';
}

/** Empty if it cannot be read. */
export function contentOf(file: string): string {
  try {
    return readFileSync(file, 'utf8').trim();
  } catch {
    return '';
  }
}
