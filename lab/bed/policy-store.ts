import { readFile, readdir } from 'node:fs/promises';
import path from 'node:path';
import pg from 'pg';
import { PolicyRecord } from '../../src/model/policy/record.js';
import { migratePostgres } from '../../src/trajectories/postgres/open.js';
import type { JournalTexts } from './journal-texts.js';
import { textsInFolder, textsInTable } from './journal-texts.js';
import { startPostgres } from './postgres-server.js';
import type { WorkerConfig } from './worker.js';

export type PolicyStoreKind = 'file' | 'postgres';

/** Where a policy bed has its journals and its record. Results are below `root` in any case. */
export interface PolicyStore {
  config: (root: string) => WorkerConfig['store'];
  /** The environment of processes that open it. */
  env: Record<string, string>;
  /** Before the first process opens it. */
  prepare: (root: string) => Promise<unknown>;
  journals: (root: string, batch_id: string) => Promise<JournalTexts>;
  /** As it has it. */
  record: (root: string) => Promise<PolicyRecord | null>;
  end: () => Promise<void>;
}

const SCHEMA = 'policy';

const IN_FILES: PolicyStore = {
  config: (root) => ({ kind: 'file', root }),
  env: {},
  prepare: () => Promise.resolve(),
  journals: (root, batch_id) => textsInFolder(path.join(root, batch_id, 'journals')),
  record: (root) => lastRecord(path.join(root, '_policy', 'default')),
  end: () => Promise.resolve(),
};

export async function openPolicyStore(kind: PolicyStoreKind): Promise<PolicyStore> {
  if (kind === 'file') return IN_FILES;
  const server = await startPostgres();
  const { url } = server;
  const pool = new pg.Pool({ connectionString: url, max: 2 });
  pool.on('error', () => undefined);
  return {
    config: (root) => ({
      kind: 'postgres',
      url_env: 'STORE_URL',
      schema: SCHEMA,
      outputs: { root },
    }),
    env: { STORE_URL: url },
    prepare: (root) =>
      migratePostgres({ url, schema: SCHEMA, max_connections: 2, outputs: { root } }),
    journals: (_, batch_id) => textsInTable(pool, { schema: SCHEMA, batch_id }),
    record: async () => {
      const { rows } = await pool.query<{ fact: string }>(
        `select fact from ${SCHEMA}.fact where series = '_policy/default' order by n desc limit 1`,
      );
      return rows[0] === undefined ? null : PolicyRecord.parse(JSON.parse(rows[0].fact));
    },
    end: async () => {
      await pool.end();
      await server.stop();
    },
  };
}

/** A service's last record in a store of files. */
export async function lastRecord(folder: string): Promise<PolicyRecord | null> {
  const names = await readdir(folder).catch(() => []);
  const epochs = names.flatMap((name) => /^(\d+)\.json$/.exec(name)?.[1] ?? []).map(Number);
  if (epochs.length === 0) return null;
  const text = await readFile(path.join(folder, `${Math.max(...epochs)}.json`), 'utf8');
  return PolicyRecord.parse(JSON.parse(text));
}
