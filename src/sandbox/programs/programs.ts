import { Fault } from '../../model/faults.js';
import { describeError } from '../../platform/errors.js';
import { runCommand } from '../../platform/process/run-command.js';
import { onceItSucceeds } from '../../platform/waits/shared.js';
import { createFolders, isRoot, randomUid } from '../folders.js';
import type { Python } from '../python.js';
import { readProgram, findPythons } from '../python.js';
import type { Watcher } from '../watch/watcher.js';
import { createWatcher } from '../watch/watcher.js';
import type { Confinement, ConfinementOptions, ProgramLimits } from './confinement.js';
import { keepOpen } from './confinement.js';
import type { Ready } from './launcher.js';
import { openLife } from './life.js';
import { contentOf, problemOf, problemOfHidden, variablesWith } from './view.js';

/** `sandbox: programs`: each life has its own view of the machine, and no network but its way to the policy. */

export function createPrograms(options: ConfinementOptions): Confinement {
  const { name } = options;
  const watcher = createWatcher();
  const open = keepOpen();
  const opener = createOpener(options, watcher);
  return {
    health: async (signal) => {
      await opener(signal);
    },
    open: async (signal) => {
      const start = await opener(signal);
      const life = await start(signal);
      return open.add({
        ...life,
        start: (command) =>
          life.start(command).catch((error: unknown) => {
            throw isOurs(error)
              ? unavailable(name, error)
              : rejected(notStarted(name, error), error);
          }),
      });
    },
    close: async () => {
      await open.close();
      await watcher.close();
    },
  };
}

type Open = (signal: AbortSignal) => ReturnType<typeof openLife>;

/** Tries the host out, once; again after a failure, for it may be changed meanwhile. */
function createOpener(
  { name, mounts, submit_mounts, limits, report }: ConfinementOptions,
  watcher: Watcher,
): (signal: AbortSignal) => Promise<Open> {
  const tryOut = async (signal: AbortSignal): Promise<Open> => {
    for (const [field, why] of [
      ['mounts', problemOf(mounts)],
      ['submit_mounts', problemOfHidden(submit_mounts, mounts)],
    ] as const)
      if (why !== null) throw rejected(`environments.${name}.run.${field}: ${why}`);
    try {
      const python = await pythonHere();
      const folders = createFolders({ python, modules: await readProgram(), report });
      const open: Open = (signal) =>
        openLife({ mounts, submit_mounts, limits, watcher, python, folders, signal }).catch(
          (error: unknown) => {
            signal.throwIfAborted();
            throw unavailable(name, error);
          },
        );
      const life = await open(signal);
      const env = variablesWith(mounts);
      await life
        .start({ argv: ['/bin/true'], env })
        .then(({ ended }) => ended)
        .finally(() => life.remove());
      for (const line of linesOf(life.ready, limits))
        report(`environments.${name}: sandbox programs: ${line}`);
      void folders.sweep();
      return open;
    } catch (error) {
      signal.throwIfAborted();
      throw error instanceof Fault ? error : unavailable(name, error);
    }
  };
  return onceItSucceeds(tryOut);
}

const rejected = (message: string, cause?: unknown): Fault =>
  new Fault({ type: 'EnvironmentRejected', message, cause });

const notStarted = (name: string, error: unknown): string =>
  `environments.${name}.run: ${describeError(error)}; programs see the system's (/usr) and what run.mounts names`;

/** As python/sandbox/programs.py says what is not the command's fault. */
const OURS = 'its sandbox cannot be had: ';
const isOurs = (error: unknown): boolean => describeError(error).startsWith(OURS);

function unavailable(name: string, error: unknown): Fault {
  const why = describeError(error).replace(OURS, '');
  const remedy = remedyFor(why);
  const message =
    `environments.${name}.run.sandbox: programs cannot have a sandbox on this host: ${why}${remedy === '' ? '' : ` (${remedy})`}. ` +
    'On a host that is a sandbox itself (a container, a virtual machine) write sandbox: none';
  return new Fault({ type: 'EnvironmentUnavailable', message, cause: error });
}

/** What this host gives to the sandbox of programs, and what to do where it does not. */

/** Under root another user runs it, too: what removes a life's folder. */
async function pythonHere(): Promise<Python> {
  const { pythons, problems } = await findPythons(null);
  for (const python of pythons) {
    const why = await problemOfUser(python);
    if (why === null) return python;
    problems.push(`${python.executable}: ${why}`);
  }
  const of = isRoot() ? ' that users other than root can run' : '';
  throw new Error(`expected Python 3.10 or later${of}, got none: ${problems.join('; ')}`);
}

const TRY_MS = 20_000;

async function problemOfUser({ executable }: Python): Promise<string | null> {
  if (!isRoot()) return null;
  const uid = randomUid();
  const { ok, problem } = await runCommand({
    ...{ command: executable, args: ['-I', '-c', 'pass'], cwd: '/', env: {} },
    ...{ user: { uid, gid: uid }, timeoutMs: TRY_MS },
  });
  return ok ? null : `${problem} as another user`;
}

function linesOf(
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

function remedyFor(why: string): string {
  const found = REASONS.find(([file, is]) => is(contentOf(file)))?.[2];
  if (found !== undefined) return found;
  if (why.startsWith('/proc of its own'))
    return 'this container hides parts of /proc (Docker: --security-opt systempaths=unconfined)';
  if (why.startsWith('namespaces'))
    return 'this container refuses namespaces (Docker: --security-opt seccomp=unconfined)';
  return '';
}
