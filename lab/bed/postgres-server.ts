import { existsSync } from 'node:fs';
import { mkdtemp, readFile, realpath, rename, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import path from 'node:path';
import type { LocalPostgres } from '../demos/cluster/postgres.js';
import {
  NO_POSTGRES,
  copyServer,
  findPostgres,
  postgresArgs,
  preparePostgres,
} from '../demos/cluster/postgres.js';
import type { Child } from '../../dev/child.js';
import { startChild } from '../../dev/child.js';
import { firstFreePort } from '../../dev/free-port.js';
import type { Freezing } from './freezing.js';
import { freezing } from './freezing.js';
import { untilStarted } from './started-child.js';
import { PATIENCE_MS } from './waiting.js';

/**
 * A test's own PostgreSQL, on loopback, in a temporary folder. It refuses to run as root, so under root it runs as
 * another user. It does not sync: only a power cut would lose data.
 */
export interface PostgresServer extends Freezing {
  /** URL of its administrator, with a password, and database `postgres`. */
  url: string;
  port: number;
  /** Its first process; the others end with it. */
  pid: () => number;
  /** Kills it like a crash. */
  kill: () => Promise<void>;
  start: () => Promise<void>;
  /** A standby on its own port, which ends with it. Nothing may be connected to the server meanwhile. */
  standby: () => Promise<PostgresServer>;
  stop: () => Promise<void>;
}

const PASSWORD = 'postgres-test-password';
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
  const scratch = process.env['TEST_SCRATCH'];
  const made = scratch === undefined ? null : path.join(scratch, 'postgres');
  const isMade = made !== null && existsSync(made);
  const local = await preparePostgres({
    binaries,
    folder,
    port,
    password: PASSWORD,
    settings: { fsync: 'off', ...settings },
    // Its log takes 16 MiB otherwise, which is half of what is copied.
    options: ['--wal-segsize=1'],
    made: isMade ? made : null,
  });
  if (made !== null && !isMade) await keep(local.data, made);
  return await serve(local, { folder, port });
}

/** For the servers of the run's other processes: `initdb` takes longer than all else that a server needs. */
async function keep(data: string, made: string): Promise<void> {
  const copy = `${made}-${process.pid}`;
  await copyServer(data, copy);
  // Of those that come at the same moment, the first stays.
  await rename(copy, made).catch(() => rm(copy, { recursive: true }));
}

/** Starts a server. `end` removes what belongs to it. */
async function serve(
  local: LocalPostgres,
  { folder, port }: { folder: string; port: number },
): Promise<PostgresServer> {
  const { command, args, url, user } = local;
  const logFile = path.join(folder, `log-${port}`);
  const standbys: PostgresServer[] = [];
  let child: Child | null = null;
  const ended = async (signal: NodeJS.Signals): Promise<void> => {
    const running = child;
    child = null;
    if (running === null) return;
    for (const one of ['SIGCONT', signal] as const) process.kill(running.pid, one);
    await running.exited;
  };
  const start = async (): Promise<void> => {
    for (const end = performance.now() + PATIENCE_MS; ;) {
      const before = existsSync(logFile) ? (await readFile(logFile, 'utf8')).length : 0;
      // The kernel ends it with this process, however that ends.
      child = await startChild({
        command,
        args,
        cwd: folder,
        env: process.env,
        logFile,
        ends: 'kernel',
        user,
      });
      try {
        await untilReady(child, { logFile, before });
        return;
      } catch (error) {
        // Processes of a killed server take a moment to notice.
        if (!String(error).includes(STILL_IN_USE) || performance.now() > end) throw error;
      }
    }
  };
  await start();
  const pid = (): number => child?.pid ?? 0;
  return {
    url,
    port,
    pid,
    ...freezing(pid),
    kill: () => ended('SIGKILL'),
    start,
    standby: async () => {
      await ended('SIGINT');
      const other = await copyToFollow(local, { folder, port });
      await start();
      const standby = await serve(other, { folder, port: Number(new URL(other.url).port) });
      standbys.push(standby);
      return standby;
    },
    stop: async () => {
      for (const standby of standbys) await standby.stop();
      await ended('SIGQUIT');
      await rm(folder, { recursive: true, force: true, maxRetries: 3 });
    },
  };
}

/** The files of a server that was stopped cleanly, with which a standby begins. */
async function copyToFollow(
  { data: source, url, ...local }: LocalPostgres,
  { folder, port: followed }: { folder: string; port: number },
): Promise<LocalPostgres> {
  const port = await firstFreePort(0);
  const data = path.join(folder, `data-${port}`);
  await copyServer(source, data);
  await writeFile(path.join(data, 'standby.signal'), '');
  const primary_conninfo = `host=127.0.0.1 port=${followed} user=admin password=${PASSWORD}`;
  const args = postgresArgs({ data, port, settings: { primary_conninfo } });
  return { ...local, args, data, url: url.replace(`:${followed}/`, `:${port}/`) };
}

/** Its log says when it is ready; after a crash, a later line says it again. */
async function untilReady(
  child: Child,
  { logFile, before }: { logFile: string; before: number },
): Promise<void> {
  await untilStarted(child, {
    what: 'PostgreSQL',
    logFile,
    look: async () =>
      /ready to accept (read-only )?connections/.test(
        (await readFile(logFile, 'utf8')).slice(before),
      ),
  });
}
