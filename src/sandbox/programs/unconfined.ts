import { spawn } from 'node:child_process';
import { mkdir, mkdtemp, readdir, readFile, readlink, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { Fault } from '../../model/faults.js';
import { claimFile, isAbandoned } from '../../platform/claim.js';
import { describeError } from '../../platform/errors.js';
import { runCommand } from '../../platform/process/run-command.js';
import { spawned } from '../../platform/process/spawned.js';
import { PROJECT_ROOT } from '../../platform/project-root.js';
import { within } from '../../platform/waits/abort.js';
import { onceItSucceeds, shared } from '../../platform/waits/shared.js';
import { createOutput } from '../output.js';
import type { Python } from '../python.js';
import { findPythons } from '../python.js';
import { signalTo } from '../watch/process-tree.js';
import type {
  Command,
  Confined,
  Confinement,
  ConfinementOptions,
  Part,
  RunningCommand,
} from './confinement.js';
import { keepOpen } from './confinement.js';
import { findProgram } from './find-program.js';

/** `sandbox: none`: programs are the worker's user. A life leaves no process and no folder behind. */
export function createUnconfined({
  name,
  report,
}: Pick<ConfinementOptions, 'name' | 'report'>): Confinement {
  report(
    'programs run with nothing around them (sandbox: none): they may do whatever this worker may',
  );
  const open = keepOpen();
  const pythonHere = onceItSucceeds(() => look(name));
  /** Removes what another worker left: it may be of a rollout that begins again here. */
  const swept = shared(() => sweep(report));
  return {
    health: async () => {
      await pythonHere();
    },
    open: async () => {
      const python = await pythonHere();
      await swept();
      return open.add(await openLife(python, { name, report }));
    },
    close: open.close,
  };
}

async function look(name: string): Promise<Python> {
  const { pythons, problems } = await findPythons(null);
  const [python] = pythons;
  if (python !== undefined) return python;
  const message = `environments.${name}.run: expected Python 3.10 or later, under which workers start programs, got none: ${problems.join('; ')}`;
  throw new Fault({ type: 'EnvironmentUnavailable', message });
}

async function sweep(report: ConfinementOptions['report']): Promise<void> {
  for (const base of await abandoned()) {
    await endStraysOf(base);
    const why = await removed(base);
    if (why !== null) report(`cannot remove ${base}, which a worker that died has left: ${why}`);
  }
}

async function openLife(
  python: Python,
  { name, report }: Pick<ConfinementOptions, 'name' | 'report'>,
): Promise<Confined> {
  const base = await made(name);
  const at = (folder: string): string => path.join(base, folder);
  const folder = at('work');
  const own = (part: Part, name: string): string =>
    at(part === 'program' ? name : `${part}-${name}`);
  let running: RunningCommand | null = null;
  let removing: Promise<void> | null = null;
  const remove = async (): Promise<void> => {
    running?.end();
    await running?.ended;
    const why = await removed(base);
    if (why !== null) report(`cannot remove ${base}: ${why}; remove it by hand`);
  };
  return {
    folder,
    kept: at('kept'),
    python: python.executable,
    variables: (part) => ({
      PATH: process.env['PATH'] ?? '/usr/local/bin:/usr/bin:/bin',
      HOME: own(part, 'home'),
      TMPDIR: own(part, 'tmp'),
      LANG: 'C.UTF-8',
    }),
    door: null,
    start: async (command) => {
      if (removing !== null) throw new Error(`${folder} is removed`);
      const { part = 'program' } = command;
      // The program may have made them.
      if (part !== 'program') await fresh(name, [own(part, 'home'), own(part, 'tmp')]);
      const cwd = part === 'submit' || part === 'patch' ? own(part, 'home') : folder;
      const [program] = command.argv;
      const PATH = command.env['PATH'] ?? '';
      if ((await findProgram(program, { PATH, folder: cwd })) === null)
        throw notStarted(name, { program, error: new Error('there is no such program') });
      running = await startGuarded(command, { python, cwd, base }).catch((error: unknown) => {
        throw notStarted(name, { program, error });
      });
      return running;
    },
    remove: () => (removing ??= remove()),
  };
}

async function made(name: string): Promise<string> {
  try {
    const base = await mkdtemp(prefix());
    await claimFile(claimIn(base));
    for (const folder of ['work', 'home', 'tmp', 'kept']) await mkdir(path.join(base, folder));
    return base;
  } catch (error) {
    const message = `environments.${name}.run: no folder for a program can be made at ${prefix()}: ${describeError(error)}`;
    throw new Fault({ type: 'EnvironmentUnavailable', message, cause: error });
  }
}

async function fresh(name: string, folders: readonly string[]): Promise<void> {
  for (const folder of folders) {
    const why = await removed(folder);
    try {
      await mkdir(folder);
    } catch (error) {
      const message = `environments.${name}.run: no empty folder can be had at ${folder}: ${why ?? describeError(error)}`;
      throw new Fault({ type: 'EnvironmentFailed', message, cause: error });
    }
  }
}

/** An argument that is too long, say: another attempt would fail, too. */
function notStarted(name: string, { program, error }: { program: string; error: unknown }): Fault {
  const said = describeError(error);
  const why = said.includes('E2BIG')
    ? 'an argument or variable has more than this system takes (128 KiB on Linux); have `setup` write it to a file'
    : said.includes('null bytes')
      ? 'an argument or variable has a NUL character, which no system takes'
      : said;
  const message = `environments.${name}.run: ${program} cannot be started: ${why}`;
  return new Fault({ type: 'EnvironmentRejected', message, cause: error });
}

/** A command under a guard, a process of its own that ends it and all that it has started (python/sandbox/command.py). */

const GUARD = path.join(PROJECT_ROOT, 'python', 'sandbox', 'command.py');
/** A guard needs less (python/rollout_environment/guard.py). */
const END_MS = 10_000;
/** Output may still be on its way when all has ended. */
const DRAIN_MS = 2000;

async function startGuarded(
  { argv, env, input, most_output }: Command,
  { python, cwd, base }: { python: Python; cwd: string; base: string },
): Promise<RunningCommand> {
  const { child, exited } = await spawned(
    spawn(python.executable, ['-I', GUARD, ...argv], {
      cwd,
      env,
      detached: true,
      stdio: [input === undefined ? 'ignore' : 'pipe', 'pipe', 'pipe', 'pipe'],
    }),
  );
  const [stdin, stdout, stderr, lifeline] = child.stdio;
  if (stdout === null || stderr === null || lifeline == null)
    throw new Error('a command was started without its pipes');
  stdin?.end(input);
  const said = createOutput(most_output);
  stdout.on('data', said.stdout);
  stderr.on('data', said.stderr);
  const closed = new Promise<void>((resolve) => {
    child.once('close', () => {
      resolve();
    });
  });
  let killing: NodeJS.Timeout | undefined;
  const ended = exited.then(async (exit) => {
    clearTimeout(killing);
    lifeline.destroy();
    // A guard ends as its program does; one that was killed itself has ended nothing.
    if (exit.signal !== null) await endStraysOf(base);
    await within(DRAIN_MS, closed);
    for (const stream of [stdout, stderr]) stream.destroy();
    return { ...exit, excess: null, output: said.output(), is_cut: said.is_cut() };
  });
  return {
    ended,
    tail: said.tail,
    end: () => {
      lifeline.destroy();
      killing ??= setTimeout(() => child.kill('SIGKILL'), END_MS).unref();
    },
  };
}

/**
 * Removes what a life leaves if its worker or guard is killed. Each life has a folder of its own, whose path is in the
 * environment of all that the life starts. By it processes are found again (on Linux; elsewhere they are not).
 */

const PREFIX = 'rollout-program-';
const prefix = (): string => path.join(tmpdir(), PREFIX);

const claimIn = (base: string): string => path.join(base, 'owner.json');

async function abandoned(): Promise<string[]> {
  const names = await readdir(tmpdir()).catch(() => []);
  const found: string[] = [];
  for (const name of names.filter((one) => one.startsWith(PREFIX))) {
    const base = path.join(tmpdir(), name);
    if (await isAbandoned(claimIn(base))) found.push(base);
  }
  return found;
}

const PASSES = 100;
const PAUSE_MS = 20;

/** Ends all processes of this user with this folder in their environment, or as their working directory. */
async function endStraysOf(base: string): Promise<void> {
  for (let pass = 0; pass < PASSES; pass++) {
    const found = await processesOf(base);
    if (found.length === 0) return;
    for (const pid of found) signalTo(pid, 'SIGKILL');
    await sleep(PAUSE_MS);
  }
}

async function processesOf(base: string): Promise<number[]> {
  const entries = await readdir('/proc').catch(() => []);
  const pids = entries.filter((name) => /^\d+$/.test(name)).map(Number);
  const found: number[] = [];
  for (const pid of pids) {
    if (pid === process.pid) continue;
    const environment = await readFile(`/proc/${pid}/environ`, 'latin1').catch(() => '');
    const cwd = await readlink(`/proc/${pid}/cwd`).catch(() => '');
    if (environment.includes(`=${base}/`) || cwd === base || cwd.startsWith(`${base}/`))
      found.push(pid);
  }
  return found;
}

/** null once it is gone, else why not. A program may have taken its own rights to what it has made. */
async function removed(base: string): Promise<string | null> {
  for (const isLast of [false, true]) {
    try {
      await rm(base, { recursive: true, force: true, maxRetries: 3 });
      return null;
    } catch (error) {
      if (isLast) return error instanceof Error ? error.message : String(error);
      await runCommand({ command: 'chmod', args: ['-R', 'u+rwX', base], timeoutMs: REMOVE_MS });
    }
  }
  return null;
}
const REMOVE_MS = 60_000;
