import assert from 'node:assert/strict';
import { readFile, readdir } from 'node:fs/promises';
import path from 'node:path';
import pg from 'pg';
import { migratePostgres } from '../../src/trajectories/postgres/open.js';
import type { CutProxy } from './cut-proxy.js';
import { startCutProxy } from './cut-proxy.js';
import type { JournalsCopy } from './journal-copies.js';
import { copyOf } from './journal-copies.js';
import type { PostgresServer } from './postgres-server.js';
import type { RecoveryBed, RecoveryBedOptions } from './bed.js';
import { startRecoveryBed } from './bed.js';

/** A recovery bed whose journals are in PostgreSQL, except for store `undisturbed`, which uses files. */
export interface PostgresBed {
  bed: RecoveryBed;
  /** Between a worker and its database. */
  proxy: (worker: string) => CutProxy;
  /** The journals of a store, read from the server at this URL. */
  copyTables: (store: string, url: string) => Promise<JournalsCopy>;
  /** The histories of a store's batch as one text; neither they nor a log may contain the password. */
  historiesOf: (store: string) => Promise<string>;
  /** Ends the bed and its proxies, not the server. */
  end: RecoveryBed['end'];
}

/** The driver's message for a commit: a prepared statement, by name. */
export const isJournalCommit = (bytes: Buffer): boolean => bytes.includes('journal_insert');

export async function startPostgresBed({
  server,
  stores,
  workers,
  patience = '20s',
  outputs = (root) => ({ root }),
  env = () => ({}),
  ...options
}: Omit<RecoveryBedOptions, 'store' | 'env'> & {
  server: PostgresServer;
  /** Each has its own schema. */
  stores: readonly string[];
  /** By name; each has its own proxy. */
  workers: readonly string[];
  /** How long a worker waits for it. */
  patience?: string;
  /** Where results are; absent: below the store's root. */
  outputs?: (root: string) => object;
  env?: (worker: string) => Record<string, string>;
}): Promise<PostgresBed> {
  const proxies = new Map<string, CutProxy>();
  for (const worker of workers)
    proxies.set(worker, await startCutProxy({ port: server.port, isCommit: isJournalCommit }));
  const proxy = (worker: string): CutProxy => proxies.get(worker)!;
  const bed = await startRecoveryBed({
    ...options,
    env: (worker) => {
      const port = proxies.get(worker)?.port;
      return port === undefined
        ? {}
        : { ...env(worker), STORE_URL: server.url.replace(`:${server.port}/`, `:${port}/`) };
    },
    store: (store, root) =>
      stores.includes(store)
        ? {
            kind: 'postgres',
            url_env: 'STORE_URL',
            schema: store,
            patience,
            outputs: outputs(root),
          }
        : { kind: 'file', root },
  });
  for (const one of proxies.values()) bed.ending(one.end);
  for (const schema of stores) {
    const place = { root: bed.storeRoot(schema) };
    await migratePostgres({ url: server.url, schema, max_connections: 2, outputs: place });
  }
  return {
    bed,
    proxy,
    copyTables: async (store, url) => {
      const rows = await query<{ rollout: string; text: string }>(
        url,
        `select rollout, string_agg(lines, '' order by n) as text from ${store}.journal group by rollout`,
      );
      return copyOf(rows.map(({ rollout, text }) => [rollout, text]));
    },
    historiesOf: async (store) => {
      const { password } = new URL(server.url);
      const names = (await readdir(bed.directory)).filter((name) => name.endsWith('.log'));
      const logs = names.map((name) => readFile(path.join(bed.directory, name), 'utf8'));
      const histories = await historiesIn(bed, store);
      for (const text of [...(await Promise.all(logs)), histories])
        assert.ok(!text.includes(password), 'the password is in a log or in a history');
      return histories;
    },
    end: bed.end,
  };
}

export async function query<Row extends pg.QueryResultRow>(
  url: string,
  text: string,
): Promise<Row[]> {
  const client = new pg.Client({ connectionString: url });
  await client.connect();
  try {
    return (await client.query<Row>(text)).rows;
  } finally {
    await client.end();
  }
}

async function historiesIn(bed: RecoveryBed, taskQueue: string): Promise<string> {
  const { workflow } = bed.server().client;
  const texts: string[] = [];
  for await (const { workflowId, runId } of workflow.list({ query: `TaskQueue = '${taskQueue}'` }))
    texts.push(textOf(await workflow.getHandle(workflowId, runId).fetchHistory()));
  return texts.join('\n');
}

/** Payloads are bytes; this returns them as text. */
const textOf = (history: unknown): string =>
  JSON.stringify(history, function (this: Record<string, unknown>, key) {
    const own = this[key];
    return own instanceof Uint8Array ? Buffer.from(own).toString() : own;
  });
