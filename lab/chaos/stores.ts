import path from 'node:path';
import pg from 'pg';
import type { RecoveryBed, RecoveryBedOptions } from '../bed/bed.js';
import { startRecoveryBed } from '../bed/bed.js';
import { textsInFolder, textsInTable } from '../bed/journal-texts.js';
import { startPostgresBed } from '../bed/postgres-bed.js';
import { startPostgres } from '../bed/postgres-server.js';
import { wrongUsage } from '../options.js';
import type { Target } from './target.js';

export type StoreKind = 'file' | 'postgres';

/** As `--store` names it. */
export function storeNamed(usage: string, name: string): StoreKind {
  if (name === 'file' || name === 'postgres') return name;
  return wrongUsage(usage, `--store: expected file or postgres, got ${name}`);
}

/** The name of the store and of its task queue. */
export const STORE = 'chaos';
export const WORKER = `worker-${STORE}`;
export const OTHER_WORKER = 'worker-other';

/** Processes, and the store in which their batches are. */
export interface StoredBed {
  bed: RecoveryBed;
  /** A batch in the store, as faults see it. */
  storeOf: (batch_id: string) => Pick<Target, 'folder' | 'journals' | 'database'>;
}

export const startStoredBed = (kind: StoreKind, options: RecoveryBedOptions): Promise<StoredBed> =>
  kind === 'file' ? inFiles(options) : inPostgres(options);

async function inFiles(options: RecoveryBedOptions): Promise<StoredBed> {
  const bed = await startRecoveryBed(options);
  return {
    bed,
    storeOf: (batch_id) => {
      const folder = path.join(bed.storeRoot(STORE), batch_id, 'journals');
      return { folder, journals: () => textsInFolder(folder), database: null };
    },
  };
}

/** Each worker reaches the database through its own proxy. */
async function inPostgres(options: RecoveryBedOptions): Promise<StoredBed> {
  const server = await startPostgres({ fsync: 'on' });
  const workers = [WORKER, OTHER_WORKER];
  const { bed, proxy } = await startPostgresBed({
    ...options,
    server,
    stores: [STORE],
    workers,
  }).catch(async (error: unknown) => {
    await server.stop();
    throw error;
  });
  const pool = new pg.Pool({ connectionString: server.url, max: 1 });
  // A killed server removes it.
  pool.on('error', () => undefined);
  bed.ending(server.stop);
  bed.ending(() => pool.end());
  const database = { ...server, proxies: workers.map(proxy) };
  return {
    bed,
    storeOf: (batch_id) => ({
      folder: '',
      journals: () => textsInTable(pool, { schema: STORE, batch_id }),
      database,
    }),
  };
}
