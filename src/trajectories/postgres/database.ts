import { setTimeout as sleep } from 'node:timers/promises';
import pg from 'pg';
import { Fault } from '../../model/faults.js';
import { describeError } from '../../platform/errors.js';
import { MIGRATE, isPassing, remedyFor } from './faults.js';

/** One statement; with a name it is prepared once per connection. */
export interface Statement {
  name?: string;
  text: string;
  values?: unknown[];
}

/** A row as it comes. */
export type Named = Record<string, unknown>;

/** A statement on a connection of its own; the rows are what the caller says they are. */
export type Ask = <Row>(statement: Statement) => Promise<Row[]>;

/**
 * A pool of connections. What is asked must mean the same when it is asked twice: while the server is away (it restarts,
 * fails over, a connection is cut) a question whose answer was lost is sent again unchanged, until `patience_ms` are over.
 * Then, and for what will not pass by itself, methods throw an error that says the cause and the remedy.
 */
export interface Database {
  ask: Ask;
  /** As `ask`; also says whether an answer was lost on the way: then the statement may have been carried out before. */
  tell: (statement: Statement) => Promise<{ rows: Named[]; is_repeated: boolean }>;
  /** All statements of a transaction or none; begun again as a whole. */
  transaction: <T>(run: (ask: Ask) => Promise<T>) => Promise<T>;
  /** Connects, without patience: null, or what stands in the way and may pass; throws what will not pass by itself. */
  look: () => Promise<string | null>;
  close: () => Promise<void>;
}

export interface DatabaseOptions {
  /** With its password; certificates by `sslmode`, `sslrootcert`, `sslcert`, `sslkey`. */
  url: string;
  max_connections: number;
  patience_ms: number;
  /** Of one statement, in the server and here; shorter than the patience. */
  statement_ms: number;
  /** Of a new connection: throws where it must not be used. */
  check: (ask: Ask) => Promise<void>;
}

const CONNECT_MS = 5000;
const FIRST_PAUSE_MS = 50;
const LONGEST_PAUSE_MS = 1000;

export function createDatabase(options: DatabaseOptions): Database {
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
    const client = await pool.connect();
    let problem: Error | undefined;
    try {
      return await use(asking(client));
    } catch (error) {
      problem = error as Error;
      throw error;
    } finally {
      // One that broke, or in which a statement may still run, is not used again.
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
    tell: async (statement) => {
      const { result, is_repeated } = await patiently((ask) => ask<Named>(statement));
      return { rows: result, is_repeated };
    },
    transaction: async (run) => (await patiently((ask) => inTransaction(ask, run))).result,
    look: async () => {
      try {
        await once(() => Promise.resolve());
        return null;
      } catch (error) {
        if (isPassing(error)) return problemOf(error).message;
        throw problemOf(error);
      }
    },
    close: () => pool.end(),
  };
}

type Use<T> = (ask: Ask) => Promise<T>;

function createPool({ url, max_connections, statement_ms, check }: DatabaseOptions): pg.Pool {
  // The pool awaits it: nobody is given a connection that it refuses.
  const onConnect = (client: pg.ClientBase): unknown => {
    // One that breaks in use fails what it was asked: said once.
    client.on('error', () => undefined);
    return check(asking(client));
  };
  const pool = new pg.Pool({
    connectionString: url,
    max: max_connections,
    connectionTimeoutMillis: CONNECT_MS,
    statement_timeout: statement_ms,
    // A server that says nothing, or a network that drops everything.
    query_timeout: statement_ms + CONNECT_MS,
    keepAlive: true,
    application_name: 'durable-rollouts',
    onConnect,
  });
  // A connection that breaks while nobody uses it leaves the pool, and is nobody's concern.
  pool.on('error', () => undefined);
  return pool;
}

async function inTransaction<T>(ask: Ask, run: Use<T>): Promise<T> {
  await ask({ text: 'begin' });
  const done = await run(ask);
  await ask({ text: 'commit' });
  return done;
}

const asking =
  (client: pg.ClientBase): Ask =>
  async (statement) =>
    (await client.query<never>(statement)).rows;

/** Without user and password. */
export function placeOf(url: string): string {
  try {
    const { hostname, port, pathname } = new URL(url);
    return `${hostname}:${port === '' ? '5432' : port}${pathname}`;
  } catch {
    return 'an unreadable URL';
  }
}

/** What each new connection of a store is asked: a standby, lost commits or another schema would be found too late. */
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
    schema: string | null;
  }>({
    text: `select pg_is_in_recovery() as standby, current_setting('synchronous_commit') as synchronous_commit,
             to_regclass($1) as schema`,
    values: [`"${schema}".schema_version`],
  });
  if (found === undefined) return;
  if (found.standby)
    throw Object.assign(new Error('it is a standby, which takes no writes'), { code: '25006' });
  if (!['on', 'remote_apply'].includes(found.synchronous_commit))
    refuse(
      `synchronous_commit is ${found.synchronous_commit}, so that a commit may be lost after it was reported: expected on; alter role or database … set synchronous_commit = on`,
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
