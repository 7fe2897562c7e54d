import { createHash } from 'node:crypto';
import { setTimeout as sleep } from 'node:timers/promises';
import type pg from 'pg';
import { Fault } from '../../model/faults.js';
import { describeError } from '../../platform/errors.js';
import { driver } from './driver.js';
import { MIGRATE, isPassing, remedyFor } from './faults.js';

/**
 * One statement. With a name it is prepared once per connection, if the connection is this client's alone. A pooler in
 * between may give each transaction another connection.
 */
export interface Statement {
  name?: string;
  text: string;
  values?: unknown[];
}

export type Named = Record<string, unknown>;

/** A statement on its own connection. The caller declares the type of the rows. */
export type Ask = <Row>(statement: Statement) => Promise<Row[]>;

export interface DatabaseOptions {
  /** With its password; certificates by `sslmode`, `sslrootcert`, `sslcert`, `sslkey`. */
  url: string;
  /** Called for each new connection: a password may change meanwhile. Throws if there is none. Default: `url`. */
  latest_url?: (() => string) | undefined;
  max_connections: number;
  patience_ms: number;
  /** Timeout of one statement, in the server and here; shorter than the patience. */
  statement_ms: number;
  /** Checks a new connection: throws if it must not be used. */
  check: (ask: Ask) => Promise<void>;
}

const CONNECT_MS = 5000;
const FIRST_PAUSE_MS = 50;
const LONGEST_PAUSE_MS = 1000;

export type Database = ReturnType<typeof createDatabase>;

/**
 * A pool of connections. Statements must be safe to repeat: while the server is unavailable (restart, failover, cut
 * connection), a statement whose answer was lost is sent again unchanged until `patience_ms` have passed. Then, and for
 * permanent errors, methods throw an error with cause and remedy.
 */
export function createDatabase(options: DatabaseOptions) {
  const { patience_ms } = options;
  const pool = createPool(options);
  const at = placeOf(options.url);
  const problemOf = (error: unknown): Error =>
    error instanceof Fault
      ? error
      : new Error(`PostgreSQL at ${at}: ${describeError(error)}${remedyFor(error)}`, {
          cause: error,
        });

  const once = async <T>(use: Use<T>): Promise<T> => {
    const client = await pool.connections.connect();
    let problem: Error | undefined;
    try {
      return await use(asking(client, pool.isOwn(client)));
    } catch (error) {
      problem = error as Error;
      throw error;
    } finally {
      // A connection that broke, or in which a statement may still run, is not reused.
      client.release(problem);
    }
  };
  const patiently = async <T>(use: Use<T>): Promise<{ result: T; is_repeated: boolean }> => {
    const end = performance.now() + patience_ms;
    for (let tries = 0; ; tries++) {
      try {
        return { result: await once(use), is_repeated: tries > 0 };
      } catch (error) {
        if (!isPassing(error) || performance.now() > end) throw problemOf(error);
        await sleep(Math.min(LONGEST_PAUSE_MS, FIRST_PAUSE_MS * 2 ** tries));
      }
    }
  };

  return {
    ask: async <Row>(statement: Statement) =>
      (await patiently((ask) => ask<Row>(statement))).result,
    /** Also returns whether an answer was lost on the way; then the statement may have been executed before. */
    tell: async (statement: Statement) => {
      const { result, is_repeated } = await patiently((ask) => ask<Named>(statement));
      return { rows: result, is_repeated };
    },
    /** All statements of a transaction or none; repeated as a whole. */
    transaction: async <T>(run: Use<T>) =>
      (await patiently((ask) => inTransaction(ask, run))).result,
    /** Connects without patience. Returns null, or the temporary obstacle; throws a permanent one. */
    look: async (): Promise<string | null> => {
      try {
        await once(() => Promise.resolve());
        return null;
      } catch (error) {
        if (isPassing(error)) return problemOf(error).message;
        throw problemOf(error);
      }
    },
    close: () => pool.connections.end(),
  };
}

type Use<T> = (ask: Ask) => Promise<T>;

function createPool(options: DatabaseOptions) {
  const { url, max_connections, statement_ms, check } = options;
  const own = new WeakSet<pg.ClientBase>();
  // The pool awaits this check, so nobody gets a connection that it refuses.
  const prepare = async (client: pg.ClientBase): Promise<void> => {
    if (await makeOwn(client, statement_ms)) own.add(client);
    await check(asking(client, false));
  };
  const onConnect = (client: pg.ClientBase): unknown => {
    // A connection that breaks in use fails its statement, which reports it once.
    client.on('error', () => undefined);
    return prepare(client);
  };
  const connections = new (driver().Pool)({
    connectionString: url,
    Client: clientsOf(options),
    max: max_connections,
    connectionTimeoutMillis: CONNECT_MS,
    // A silent server, or a network that drops everything.
    query_timeout: statement_ms + CONNECT_MS,
    keepAlive: true,
    application_name: 'durable-rollouts',
    onConnect,
  });
  // A connection that breaks while idle leaves the pool without any consequence.
  connections.on('error', () => undefined);
  /** Whether nobody else uses this connection of the server; false behind a pooler. */
  const isOwn = (client: pg.ClientBase): boolean => own.has(client);
  return { connections, isOwn };
}

/** The pool constructs a client for each connection, in places where nobody would catch an error. */
function clientsOf({ url, latest_url }: DatabaseOptions): new () => pg.Client {
  let known = url;
  const latest = (): string => {
    try {
      known = latest_url?.() ?? url;
    } catch {
      // A file that is being written; the last URL says by itself if it is over.
    }
    return known;
  };
  return class extends driver().Client {
    constructor(config?: pg.ClientConfig) {
      super({ ...config, connectionString: latest() });
    }
  };
}

/**
 * Settings of the session, unless a pooler is in between: there they would reach others who use the same connection. A
 * pooler shows by a process id that is not the server's. Every statement has an index, and a plan that was made for a
 * small table stays when the table has grown; hence no scans.
 */
async function makeOwn(client: pg.ClientBase, statement_ms: number): Promise<boolean> {
  const { processID = null } = client as { processID?: number | null };
  const { rows } = await client.query<{ is_own: boolean }>(
    `select own.is_own, case when own.is_own then set_config('enable_seqscan', 'off', false) end,
            case when own.is_own then set_config('statement_timeout', $2, false) end
       from (select coalesce(pg_backend_pid() = $1::int, false) as is_own) as own`,
    [processID, String(statement_ms)],
  );
  return rows[0]?.is_own === true;
}

async function inTransaction<T>(ask: Ask, run: Use<T>): Promise<T> {
  await ask({ text: 'begin' });
  const done = await run(ask);
  await ask({ text: 'commit' });
  return done;
}

const asking =
  (client: pg.ClientBase, isOwn: boolean): Ask =>
  async ({ name, ...statement }) => {
    const named = isOwn && name !== undefined ? { name: nameOf(name, statement.text) } : {};
    return (await client.query<never>({ ...statement, ...named })).rows;
  };

/** A name stands for one text, which has the schema: a shared connection executes no other store's statement. */
const nameOf = (name: string, text: string): string =>
  `${name}_${createHash('sha256').update(text).digest('hex').slice(0, 16)}`;

/** Without user and password. */
export function placeOf(url: string): string {
  try {
    const { hostname, port, pathname } = new URL(url);
    return `${hostname}:${port === '' ? '5432' : port}${pathname}`;
  } catch {
    return 'an unreadable URL';
  }
}

/** Checks of each new connection of a store: a standby, lost commits or another schema would be noticed too late. */
export async function checkConnection(
  ask: Ask,
  { schema, version }: { schema: string; version: number },
): Promise<void> {
  const refuse = (message: string): never => {
    throw new Error(message);
  };
  const [found] = await ask<{
    standby: boolean;
    synchronous_commit: string;
    encoding: string;
    schema: string | null;
  }>({
    text: `select pg_is_in_recovery() as standby, current_setting('synchronous_commit') as synchronous_commit,
             current_setting('server_encoding') as encoding, to_regclass($1) as schema`,
    values: [`"${schema}".schema_version`],
  });
  if (found === undefined) return;
  if (found.standby)
    throw Object.assign(new Error('it is a standby, which takes no writes'), { code: '25006' });
  if (!['on', 'remote_apply'].includes(found.synchronous_commit))
    refuse(
      `synchronous_commit is ${found.synchronous_commit}, so a reported commit may be lost; expected on: alter role or database … set synchronous_commit = on`,
    );
  if (found.encoding !== 'UTF8')
    refuse(
      `the database has encoding ${found.encoding}, which cannot hold every text: expected UTF8; make one with create database … encoding 'UTF8' template template0`,
    );
  if (found.schema === null) refuse(`schema ${schema} has no tables of this store: ${MIGRATE}`);
  const [there] = await ask<{ version: number | null }>({
    text: `select max(version) as version from "${schema}".schema_version`,
  });
  const theirs = there?.version ?? 0;
  if (theirs < version)
    refuse(`schema ${schema} is at version ${theirs}, this release needs ${version}: ${MIGRATE}`);
  if (theirs > version)
    refuse(
      `schema ${schema} is at version ${theirs}, this release knows ${version}: use the release that migrated it, or a later one`,
    );
}
