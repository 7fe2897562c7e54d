import { existsSync } from 'node:fs';
import { mkdtemp, readFile, realpath, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { NO_POSTGRES, findPostgres, preparePostgres } from '../../src/dev/postgres.js';
import type { Child, Exit } from '../../src/platform/process/child.js';
import { describeExit, startChild } from '../../src/platform/process/child.js';
import { firstFreePort } from '../../src/platform/process/free-port.js';

/**
 * A PostgreSQL of a test's own, on loopback, in a temporary folder. It refuses to run as root: there it runs as another
 * user. Not synced: what it loses, a power cut would have to take.
 */
export interface PostgresServer {
  /** URL of its administrator, with a password, and database `postgres`. */
  url: string;
  port: number;
  /** Its first process: the others end with it. */
  pid: () => number;
  /** Kills it as a crash does. */
  kill: () => Promise<void>;
  start: () => Promise<void>;
  stop: () => Promise<void>;
}

const PASSWORD = 'postgres-test-password';
const START_MS = 30_000;
const STILL_IN_USE = 'shared memory block';

/** Why tests that need PostgreSQL are skipped here; false if there is one. */
export const noPostgres: string | false = findPostgres(process.env) === null ? NO_POSTGRES : false;

export async function startPostgres(
  settings: Record<string, string> = {},
): Promise<PostgresServer> {
  const binaries = findPostgres(process.env);
  if (binaries === null) throw new Error(NO_POSTGRES);
  const folder = await realpath(await mkdtemp(path.join(tmpdir(), 'rollouts-postgres-')));
  const port = await firstFreePort(0);
  const { command, args, url, user } = await preparePostgres({
    binaries,
    folder,
    port,
    password: PASSWORD,
    settings: { fsync: 'off', ...settings },
  });
  const logFile = path.join(folder, 'log');
  let child: Child | null = null;
  const ended = async (signal: NodeJS.Signals): Promise<void> => {
    const running = child;
    child = null;
    if (running === null) return;
    for (const one of ['SIGCONT', signal] as const) process.kill(running.pid, one);
    await running.exited;
  };
  const start = async (): Promise<void> => {
    for (const end = performance.now() + START_MS; ;) {
      const before = existsSync(logFile) ? (await readFile(logFile, 'utf8')).length : 0;
      // The kernel ends it with this process, however that ends.
      child = await startChild({ command, args, cwd: folder, env: process.env, logFile, ends: 'kernel', user }); // prettier-ignore
      try {
        await untilReady(child, { logFile, before });
        return;
      } catch (error) {
        // Processes of one that was killed take a moment to notice.
        if (!String(error).includes(STILL_IN_USE) || performance.now() > end) throw error;
      }
    }
  };
  await start();
  return {
    url,
    port,
    pid: () => child?.pid ?? 0,
    kill: () => ended('SIGKILL'),
    start,
    stop: async () => {
      await ended('SIGQUIT');
      await rm(folder, { recursive: true, force: true, maxRetries: 3 });
    },
  };
}

/** Its log says so; after a crash it says so again. */
async function untilReady(
  child: Child,
  { logFile, before }: { logFile: string; before: number },
): Promise<void> {
  const end: { exit: Exit | null } = { exit: null };
  void child.exited.then((exit) => {
    end.exit = exit;
  });
  for (const latest = performance.now() + START_MS; performance.now() < latest;) {
    const text = (await readFile(logFile, 'utf8')).slice(before);
    if (text.includes('ready to accept connections')) return;
    if (end.exit !== null)
      throw new Error(`PostgreSQL has ended ${describeExit(end.exit)}:\n${text}`);
    await new Promise((resolve) => setTimeout(resolve, 50));
  }
  throw new Error(`PostgreSQL is not ready after ${START_MS} ms`);
}
