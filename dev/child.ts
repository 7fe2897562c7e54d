import { spawn } from 'node:child_process';
import { createReadStream } from 'node:fs';
import { copyFile, mkdir, open, stat, truncate } from 'node:fs/promises';
import path from 'node:path';
import { text } from 'node:stream/consumers';
import { describeError, shortened } from '../src/platform/errors.js';
import { plainLine } from '../src/platform/plain.js';
import { lastLines, runCommand } from '../src/platform/process/run-command.js';
import type { Exit } from '../src/platform/process/spawned.js';
import { spawned } from '../src/platform/process/spawned.js';

export { describeExit, type Exit } from '../src/platform/process/spawned.js';

/** A running process with its own process group. */
export interface Child {
  pid: number;
  exited: Promise<Exit>;
  /** Whether its output has this, in its first MiB. */
  said: (text: RegExp) => Promise<boolean>;
  /** Why it ended, as its output says it: the last line that is neither a log line in JSON nor part of a stack. */
  lastWords: () => Promise<string | null>;
  /** SIGTERM, then SIGKILL to the whole group after `graceMs` (8 s) and to what the process left behind. */
  stop: (graceMs?: number) => Promise<void>;
  /** SIGKILL to the whole group at once, for the last moment of the parent. */
  kill: () => void;
}

export interface ChildOptions {
  command: string;
  args: readonly string[];
  cwd: string;
  env: NodeJS.ProcessEnv;
  /** stdout and stderr are appended here. It is kept small. */
  logFile: string;
  /**
   * How the child notices that this process is gone: `pipe`: its stdin ends (see `lifeline.ts`). `kernel`: Linux sends
   * it SIGTERM, for foreign programs; elsewhere this does nothing.
   */
  ends: 'pipe' | 'kernel';
  /** Nobody else may read what it creates, whatever the umask of this process. */
  is_private?: boolean;
  /** Default: this process's. */
  user?: { uid?: number; gid?: number };
}

const GRACE_MS = 8000;

/** Rejects if the program cannot be started at all. */
export async function startChild({
  command,
  args,
  cwd,
  env,
  logFile,
  ends,
  is_private = false,
  user = {},
}: ChildOptions): Promise<Child> {
  await mkdir(path.dirname(logFile), { recursive: true, mode: 0o700 });
  const prefix = ends === 'kernel' ? await kernelLifeline() : null;
  const [program, rest] =
    prefix === null ? [command, args] : ['setpriv', [...prefix, command, ...args]];
  const log = await open(logFile, 'a', 0o600);
  const { size: loggedBefore } = await log.stat();
  try {
    const start = is_private ? privately : atOnce;
    const started = start(() =>
      spawn(program, rest, {
        ...user,
        cwd,
        env: ends === 'pipe' ? { ...env, ROLLOUT_LIFELINE: '1' } : env,
        stdio: [ends === 'pipe' ? 'pipe' : 'ignore', log.fd, log.fd],
        // A separate group: Ctrl-C reaches only this process, which then ends its children in order.
        detached: true,
      }),
    );
    const { child, exited } = await spawned(started);
    const { pid } = child;
    const ended = keepSmall(logFile);
    void exited.then(() => {
      ended();
      child.stdin?.destroy();
    });
    if (pid === undefined) throw new Error('it has no process id');
    return {
      ...toChild(pid, exited),
      said: async (words) =>
        words.test(await partOf(logFile, { from: loggedBefore, first: FIRST_BYTES })),
      lastWords: () => lastWordsIn(logFile, loggedBefore),
    };
  } catch (error) {
    throw new Error(`${command} cannot be started: ${describeError(error)}`);
  } finally {
    await log.close();
  }
}

const PRIVATE_UMASK = 0o077;

const atOnce = <T>(start: () => T): T => start();

/** A child has the umask that its parent has when it starts it, which is before `start` returns. */
function privately<T>(start: () => T): T {
  const before = process.umask(PRIVATE_UMASK);
  try {
    return start();
  } finally {
    process.umask(before);
  }
}

function toChild(
  pid: number,
  exited: Promise<Exit>,
): Pick<Child, 'pid' | 'exited' | 'stop' | 'kill'> {
  let alive = true;
  void exited.then(() => {
    alive = false;
  });
  const kill = (): void => {
    signal(-pid, 'SIGKILL');
  };
  const stop = async (graceMs = GRACE_MS): Promise<void> => {
    if (alive) signal(pid, 'SIGTERM');
    const timer = setTimeout(kill, graceMs);
    await exited;
    clearTimeout(timer);
    kill();
  };
  return { pid, exited, stop, kill };
}

/** Signals a process, or a group if `target` is negative. A missing process is no error. */
function signal(target: number, name: NodeJS.Signals): void {
  try {
    process.kill(target, name);
  } catch {
    // ESRCH.
  }
}

/**
 * Arguments of `setpriv`. It asks the kernel for a SIGTERM when the parent dies, and then becomes the program with the
 * same process id.
 */
async function kernelLifeline(): Promise<string[] | null> {
  if (process.platform !== 'linux') return null;
  const args = ['--pdeathsig', 'TERM', '--'];
  const { ok } = await runCommand({ command: 'setpriv', args: [...args, 'true'], timeoutMs: 5000 });
  return ok ? args : null;
}

/** Lines of stacks (of JavaScript, of native code), of their headings, and of objects and log lines in JSON. */
const NO_WORDS = /^(?:\s|-----|\d+: |[{}[\]]|note: |Node\.js v|$)/;
const LAST_BYTES = 64 * 1024;
const FIRST_BYTES = 1024 * 1024;
const MOST_WORDS = 300;

const lastWordsIn = async (logFile: string, from: number): Promise<string | null> => {
  const lines = (await partOf(logFile, { from, last: LAST_BYTES })).split('\n');
  const words = lines.findLast((line) => !NO_WORDS.test(line));
  return words === undefined ? null : shortened(plainLine(words), MOST_WORDS);
};

/** The first or the last bytes of a log from some place on; empty if it cannot be read. */
async function partOf(
  logFile: string,
  { from = 0, first = Infinity, last = Infinity }: { from?: number; first?: number; last?: number },
): Promise<string> {
  try {
    const { size } = await stat(logFile);
    const start = Math.max(from > size ? 0 : from, size - last);
    return await text(createReadStream(logFile, { start, end: start + first - 1 }));
  } catch {
    return '';
  }
}

/** The end of a log file for an error message, or an empty text. */
export const logTail = async (logFile: string, lines: number): Promise<string> =>
  lastLines(await partOf(logFile, { last: LAST_BYTES }), lines);

/** A stack may run for months, and what it waits for may be away for days. */
const MOST_BYTES = 64 * 2 ** 20;
const LOOK_MS = 60_000;

/** While a process appends to its log. Returns what ends the looks. */
function keepSmall(logFile: string): () => void {
  const looking = setInterval(() => void cutLarge(logFile).catch(() => undefined), LOOK_MS);
  looking.unref();
  return () => {
    clearInterval(looking);
  };
}

/**
 * A log that has grown large becomes `<log>.1`, in place of the one before, and begins anew. It stays the same file, which
 * its writer has open; what is written while it is copied is lost. On a full disk all of it is.
 */
export async function cutLarge(logFile: string, most_bytes = MOST_BYTES): Promise<void> {
  if ((await stat(logFile)).size <= most_bytes) return;
  await copyFile(logFile, `${logFile}.1`).catch(() => undefined);
  await truncate(logFile);
}
