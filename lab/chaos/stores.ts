import path from 'node:path';
import pg from 'pg';
import { textsInFolder, textsInTable } from '../bed/journal-texts.js';
import type { PostgresBed } from '../bed/postgres-bed.js';
import { startPostgresBed } from '../bed/postgres-bed.js';
import type { PostgresServer } from '../bed/postgres-server.js';
import { startPostgres } from '../bed/postgres-server.js';
import type { RecoveryBed, RecoveryBedOptions } from '../bed/bed.js';
import type { Target } from './target.js';

export type StoreKind = 'file' | 'postgres';

/** The name of the store and of its task queue. */
export const STORE = 'chaos';
export const WORKER = `worker-${STORE}`;
export const OTHER_WORKER = 'worker-other';

/** Processes, and the store in which their batches are. */
export interface StoredBed {
  bed: RecoveryBed;
  /** A batch in the store, as faults see it. */
  storeOf: (batch_id: string) => Pick<Target, 'folder' | 'journals' | 'database'>;
  end: () => Promise<void>;
}

export function inFiles(bed: RecoveryBed): StoredBed {
  return {
    bed,
    storeOf: (batch_id) => {
      const folder = path.join(bed.storeRoot(STORE), batch_id, 'journals');
      return { folder, journals: () => textsInFolder(folder), database: null };
    },
    end: bed.end,
  };
}

/** Each worker reaches the database through its own proxy. */
export async function inPostgres(options: RecoveryBedOptions): Promise<StoredBed> {
  const server = await startPostgres({ fsync: 'on' });
  const workers = [WORKER, OTHER_WORKER];
  const tables = await startPostgresBed({ ...options, server, stores: [STORE], workers }).catch(
    async (error: unknown) => {
      await server.stop();
      throw error;
    },
  );
  const pool = new pg.Pool({ connectionString: server.url, max: 1 });
  // A killed server removes it.
  pool.on('error', () => undefined);
  return {
    bed: tables.bed,
    storeOf: (batch_id) => ({
      folder: '',
      journals: () => textsInTable(pool, { schema: STORE, batch_id }),
      database: databaseOf(server, { tables, workers }),
    }),
    end: async () => {
      await pool.end();
      await tables.end();
      await server.stop();
    },
  };
}

function databaseOf(
  server: PostgresServer,
  { tables, workers }: { tables: PostgresBed; workers: readonly string[] },
): NonNullable<Target['database']> {
  const proxies = workers.map(tables.proxy);
  return {
    kill: server.kill,
    start: server.start,
    pause: () => {
      process.kill(server.pid(), 'SIGSTOP');
    },
    resume: () => {
      process.kill(server.pid(), 'SIGCONT');
    },
    loseAnswers: (count) => {
      for (const proxy of proxies) proxy.cutAnswers(count);
    },
    cutOff: () => {
      for (const proxy of proxies) proxy.close();
    },
    letThrough: () => {
      for (const proxy of proxies) proxy.open();
    },
  };
}
