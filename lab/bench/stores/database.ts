import { readFile } from 'node:fs/promises';
import pg from 'pg';
import { createFileStore } from '../../../src/trajectories/files/file-store.js';
import { migratePostgres, openPostgresStore } from '../../../src/trajectories/postgres/open.js';
import type { OpenStore } from '../../../src/trajectories/trajectory-store.js';
import type { PostgresServer } from '../../bed/postgres-server.js';
import { startPostgres } from '../../bed/postgres-server.js';
import { cpuMs } from '../process-usage.js';

/** The bench's own PostgreSQL, as durable as one in production, with the tables of a store. */
export interface Database extends PostgresServer {
  query: <Row extends pg.QueryResultRow>(text: string, values?: unknown[]) => Promise<Row[]>;
  /** CPU milliseconds of all its processes so far, including ended ones. */
  cpu: () => Promise<number>;
  end: () => Promise<void>;
}

export const SCHEMA = 'bench';

/** Where a store is, as the input of a process. */
export interface StorePlace {
  kind: 'file' | 'postgres';
  /** The folder of its files. */
  root: string;
  url: string;
}

export async function startDatabase(outputs: string): Promise<Database> {
  const server = await startPostgres({ fsync: 'on', max_wal_size: '4GB' });
  await migratePostgres({
    url: server.url,
    schema: SCHEMA,
    max_connections: 2,
    outputs: { root: outputs },
  });
  const pool = new pg.Pool({ connectionString: server.url, max: 2 });
  return {
    ...server,
    query: async <Row extends pg.QueryResultRow>(text: string, values?: unknown[]) =>
      (await pool.query<Row>(text, values)).rows,
    cpu: () => treeCpuMs(server.pid()),
    end: async () => {
      await pool.end();
      await server.stop();
    },
  };
}

/** It caches nothing, so every read is a real one. */
export function openBenchStore({ kind, root, url }: StorePlace): OpenStore {
  const bounds = { max_cached_bytes: 0, max_request_bytes: 1_000_000 };
  if (kind === 'postgres')
    return openPostgresStore({
      url,
      schema: SCHEMA,
      max_connections: 8,
      outputs: { root },
      ...bounds,
    });
  return {
    store: createFileStore({ root, ...bounds }),
    ids: () => Promise.resolve({ store: null, results: null }),
    ready: () => Promise.resolve(),
    tryOut: () => Promise.resolve(),
    keySecret: () => Promise.resolve('a secret of measurements'),
    close: () => Promise.resolve(),
  };
}

const TICK_MS = 10;

async function treeCpuMs(pid: number): Promise<number> {
  const children = (await readFile(`/proc/${pid}/task/${pid}/children`, 'utf8')).trim().split(' ');
  const live = children
    .filter((child) => child !== '')
    .map((child) => cpuMs(Number(child)).catch(() => 0));
  const sum = (await Promise.all(live)).reduce((total, ms) => total + ms, 0);
  return sum + (await cpuMs(pid)) + (await endedChildrenMs(pid));
}

async function endedChildrenMs(pid: number): Promise<number> {
  const stat = await readFile(`/proc/${pid}/stat`, 'utf8');
  const fields = stat.slice(stat.lastIndexOf(')') + 2).split(' ');
  return (Number(fields[13]) + Number(fields[14])) * TICK_MS;
}
