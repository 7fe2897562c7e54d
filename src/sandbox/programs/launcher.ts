import type { ChildProcess } from 'node:child_process';
import { spawn } from 'node:child_process';
import { writeFile } from 'node:fs/promises';
import type { Server } from 'node:net';
import path from 'node:path';
import type { Readable } from 'node:stream';
import { z } from 'zod';
import { lastLines } from '../../platform/process/run-command.js';
import { spawned } from '../../platform/process/spawned.js';
import { PROJECT_ROOT } from '../../platform/project-root.js';
import { LATE, orAborted, within } from '../../platform/waits/abort.js';
import { createOutput } from '../output.js';
import type { Python } from '../python.js';

/** The process that owns the namespaces of one life (python/sandbox/programs.py), and what it is told and says. */

const Ready = z.object({
  landlock: z.int(),
  /** Calls that its list refuses. */
  refused: z.int(),
  bounded_sysv: z.boolean(),
});
export type Ready = z.infer<typeof Ready>;

const Said = z.union([
  z.object({ unshared: z.literal(true) }),
  z.object({ ready: Ready }),
  z.object({ started: z.int() }),
  z.object({ refused: z.string(), id: z.int().optional() }),
  z.object({ ended: z.int(), status: z.int(), stdout: z.int(), stderr: z.int() }),
]);
export type Said = z.infer<typeof Said>;

interface LaunchOptions {
  folder: string;
  /** Null: the worker's own. */
  own_user: number | null;
  port: number;
  disk: number;
  /** The kernel's limit; null: it would count others, too. */
  processes: number | null;
}

export interface Launcher {
  pid: number;
  stdout: Readable;
  stderr: Readable;
  ready: Ready;
  server: Server;
  send: (order: object) => unknown;
  listen: (hear: (said: Said) => void) => void;
  /** Resolves when it has ended, and with it all that it started. */
  ended: Promise<void>;
  /** It ends what runs, empties its folder and ends. */
  leave: () => void;
}

const PROGRAM = path.join(PROJECT_ROOT, 'python', 'sandbox', 'programs.py');
const OPEN_MS = 20_000;
const LEAVE_MS = 10_000;

/** As a program in it sees itself. */
const ID = 1000;

/** Rejects with the reason if this machine gives no such namespaces. */
export async function launch(
  opening: LaunchOptions,
  { python, signal }: { python: Python; signal: AbortSignal },
): Promise<Launcher> {
  const { child, exited } = await spawned(
    spawn(python.executable, ['-I', '-S', PROGRAM], {
      ...{ cwd: '/', env: {}, detached: true, serialization: 'json' },
      stdio: ['ignore', 'pipe', 'pipe', 'ipc'],
    }),
  );
  const { stdout, stderr, pid } = child;
  if (stdout === null || stderr === null || pid === undefined)
    throw new Error('the sandbox was started without its pipes');
  const ended = exited.then(() => undefined);
  const leave = (): void => {
    if (child.connected) child.disconnect();
    const late = setTimeout(() => child.kill('SIGKILL'), LEAVE_MS).unref();
    void ended.then(() => {
      clearTimeout(late);
    });
  };
  try {
    const greeted = greet(opening, { child, pid, ended, stderr });
    const ready = await within(OPEN_MS, orAborted(greeted, signal));
    if (ready === LATE) throw new Error(`it did not open within ${OPEN_MS / 1000} s`);
    return {
      pid,
      stdout,
      stderr,
      ended,
      leave,
      // If it has ended, `ended` says so.
      send: (order) => child.connected && child.send(order, () => undefined),
      listen: (hear) => {
        child.on('message', (message) => {
          hear(Said.parse(message));
        });
      },
      ...ready,
    };
  } catch (error) {
    leave();
    await within(2 * LEAVE_MS, ended);
    throw error;
  }
}

async function greet(
  opening: LaunchOptions,
  {
    child,
    pid,
    ended,
    stderr,
  }: Pick<Launcher, 'pid' | 'ended' | 'stderr'> & { child: ChildProcess },
): Promise<Pick<Launcher, 'ready' | 'server'>> {
  const errors = createOutput();
  stderr.on('data', errors.stderr);
  const answer = new Promise<Pick<Launcher, 'ready' | 'server'>>((resolve, reject) => {
    const hear = (message: unknown, handle: unknown): void => {
      const said = Said.parse(message);
      if ('unshared' in said) {
        writeMaps(pid, opening.own_user).then(() => child.send({ mapped: true }), reject);
        return;
      }
      child.off('message', hear);
      if ('refused' in said) reject(new Error(said.refused));
      else if ('ready' in said) resolve({ ready: said.ready, server: handle as Server });
    };
    child.on('message', hear);
    void ended.then(() => {
      reject(new Error(`it ended at once: ${lastLines(errors.tail(), 1) || 'it gave no reason'}`));
    });
  });
  child.send({ open: opening });
  const greeted = await answer;
  stderr.off('data', errors.stderr);
  return greeted;
}

/** Root gives programs an id of their own; others can give them only theirs. */
async function writeMaps(pid: number, own_user: number | null): Promise<void> {
  const of = `/proc/${pid}`;
  if (own_user === null) await writeFile(`${of}/setgroups`, 'deny');
  for (const [name, own] of [
    ['uid_map', process.getuid?.()],
    ['gid_map', process.getgid?.()],
  ] as const)
    await writeFile(
      `${of}/${name}`,
      own_user === null ? `${ID} ${own ?? 0} 1\n` : `0 0 1\n${ID} ${own_user} 1\n`,
    );
}
