import { execFile, spawn, spawnSync } from 'node:child_process';
import type { ChildProcess } from 'node:child_process';
import { once } from 'node:events';
import { existsSync, readdirSync } from 'node:fs';
import { chmod, chown, mkdtemp, open, readFile, realpath, rm } from 'node:fs/promises';
import { createServer } from 'node:net';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { promisify } from 'node:util';

/**
 * A PostgreSQL of a test's own, on loopback, in a temporary folder. It refuses to run as root: there it runs as another
 * user. Not synced: what it loses, a power cut would have to take.
 */
export interface PostgresServer {
  /** Of its administrator, with a password, and database `postgres`. */
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
/** `nobody`, by number: it needs no entry. */
const OTHER_USER = 65_534;

const run = promisify(execFile);

interface User {
  uid?: number;
  gid?: number;
}

/** Why tests that need one are skipped here; false where there is one. */
export const noPostgres: string | false =
  findBinaries() === null
    ? 'needs PostgreSQL: put initdb and postgres on PATH, or name their folder in TEST_POSTGRES_BIN'
    : false;

/** The folder of `initdb` and `postgres`; null where there is none. */
function findBinaries(): string | null {
  const named = process.env['TEST_POSTGRES_BIN'];
  const places = named === undefined ? [...onPath(), ...ofDebian()] : [named];
  return places.find((place) => existsSync(path.join(place, 'initdb'))) ?? null;
}

/** Where a link leads: what PostgreSQL needs is beside the program. */
function onPath(): string[] {
  const found = spawnSync('sh', ['-c', 'readlink -f "$(command -v initdb)"'], { encoding: 'utf8' });
  return found.stdout.trim() === '' ? [] : [path.dirname(found.stdout.trim())];
}

function ofDebian(): string[] {
  const versions = '/usr/lib/postgresql';
  if (!existsSync(versions)) return [];
  return readdirSync(versions).map((version) => path.join(versions, version, 'bin'));
}

export async function startPostgres(
  settings: Record<string, string> = {},
): Promise<PostgresServer> {
  const binaries = findBinaries();
  if (binaries === null) throw new Error(String(noPostgres));
  const folder = await realpath(await mkdtemp(path.join(tmpdir(), 'rollouts-postgres-')));
  const user: User = process.getuid?.() === 0 ? { uid: OTHER_USER, gid: OTHER_USER } : {};
  if (user.uid !== undefined) await chown(folder, user.uid, user.uid);
  await chmod(folder, 0o700);
  const data = path.join(folder, 'data');
  const secret = path.join(folder, 'password');
  await writeSecret(secret, user);
  const program = (name: string): string => path.join(binaries, name);
  await run(
    program('initdb'),
    ['-D', data, '-U', 'admin', '-A', 'scram-sha-256', `--pwfile=${secret}`, '-E', 'UTF8', '--locale=C', '--no-sync', '--no-instructions'], // prettier-ignore
    { ...user, cwd: folder },
  );
  const port = await freePort();
  const all = { port: String(port), listen_addresses: '127.0.0.1', unix_socket_directories: '', fsync: 'off', ...settings }; // prettier-ignore
  const flags = Object.entries(all).flatMap(([key, value]) => ['-c', `${key}=${value}`]);
  let child: ChildProcess | null = null;
  const ended = async (signal: NodeJS.Signals): Promise<void> => {
    const running = child;
    child = null;
    if (running === null || running.exitCode !== null) return;
    const exit = once(running, 'exit');
    running.kill('SIGCONT');
    running.kill(signal);
    await exit;
  };
  const start = async (): Promise<void> => {
    const log = await open(path.join(folder, 'log'), 'a');
    child = spawn(program('postgres'), ['-D', data, ...flags], {
      ...user,
      cwd: folder,
      stdio: ['ignore', log.fd, log.fd],
    });
    await log.close();
    await untilReady(folder, child);
  };
  const atExit = (): void => void child?.kill('SIGQUIT');
  process.on('exit', atExit);
  await start();
  return {
    url: `postgres://admin:${PASSWORD}@127.0.0.1:${port}/postgres`,
    port,
    pid: () => child?.pid ?? 0,
    kill: () => ended('SIGKILL'),
    start,
    stop: async () => {
      await ended('SIGQUIT');
      process.off('exit', atExit);
      await rm(folder, { recursive: true, force: true, maxRetries: 3 });
    },
  };
}

async function writeSecret(file: string, user: User): Promise<void> {
  const handle = await open(file, 'wx', 0o600);
  await handle.writeFile(PASSWORD);
  if (user.uid !== undefined) await handle.chown(user.uid, user.gid ?? user.uid);
  await handle.close();
}

async function freePort(): Promise<number> {
  const server = createServer().listen(0, '127.0.0.1');
  await once(server, 'listening');
  const address = server.address();
  server.close();
  await once(server, 'close');
  return typeof address === 'object' && address !== null ? address.port : 0;
}

/** Its log says so; after a crash it says so again, behind what it said before. */
async function untilReady(folder: string, child: ChildProcess): Promise<void> {
  const file = path.join(folder, 'log');
  const before = (await readFile(file, 'utf8')).length;
  for (const end = performance.now() + START_MS; performance.now() < end;) {
    const text = (await readFile(file, 'utf8')).slice(before);
    if (text.includes('ready to accept connections')) return;
    if (child.exitCode !== null) throw new Error(`PostgreSQL has ended:\n${text}`);
    await new Promise((resolve) => setTimeout(resolve, 50));
  }
  throw new Error(`PostgreSQL is not ready after ${START_MS} ms`);
}
