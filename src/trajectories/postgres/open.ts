import { randomUUID } from 'node:crypto';
import { setTimeout as sleep } from 'node:timers/promises';
import type { OutputSettings } from '../outputs-place.js';
import { createFoldCache } from '../kept.js';
import { openOutputs } from '../outputs-place.js';
import { createStore } from '../store.js';
import { findStoreId, keySecretOf, storeIdOf } from '../store-id.js';
import type { OpenStore } from '../trajectory-store.js';
import type { Database, DatabaseOptions } from './database.js';
import { checkConnection, createDatabase, placeOf } from './database.js';
import { SCHEMA_VERSION, migrate } from './migrations.js';
import { createBatchTables } from './batch.js';
import { createTableFacts } from './facts.js';
import { createTableJournals } from './journal.js';
import { createJournalTable } from './journal-table.js';

export interface PostgresSettings {
  /** With its password. */
  url: string;
  /** Read for each new connection; default: `url`. */
  latest_url?: () => string;
  schema: string;
  max_connections: number;
  outputs: OutputSettings;
  /** How long a statement waits for an unavailable server; default: 20 s. */
  patience_ms?: number;
}

const PATIENCE_MS = 20_000;
/** A commit waits only for the disk and a few rows of another process. */
const STATEMENT_MS = 15_000;

const RETRY_MS = 2000;
const GIVE_UP_MS = 5 * 60_000;

/**
 * Trajectories in PostgreSQL, for any number of hosts: journals, requests, samples and facts are rows, results are files
 * that trainers read, `<outputs>/<batch_id>/{rollouts.jsonl, failures.jsonl, groups.jsonl, metrics.json}`, in a
 * folder that all workers have, or objects in a bucket.
 */
export function openPostgresStore({
  max_cached_bytes,
  max_request_bytes,
  ...settings
}: PostgresSettings & { max_cached_bytes: number; max_request_bytes: number }): OpenStore {
  const { schema } = settings;
  const outputs = openOutputs(settings.outputs);
  const database = connectTo(settings, (ask) =>
    checkConnection(ask, { schema, version: SCHEMA_VERSION }),
  );
  const cache = createFoldCache({ max_bytes: max_cached_bytes });
  const store = createStore(
    {
      name: `postgres://${placeOf(settings.url)}#${schema}`,
      batches: createBatchTables(database, schema),
      journals: createTableJournals(createJournalTable(database, schema), cache),
      facts: createTableFacts(database, schema),
      outputs,
    },
    { max_request_bytes },
  );
  return {
    store,
    tryOut: () => tryOut(database, schema),
    ids: async ({ make, results }) => {
      const idOf = make ? storeIdOf : findStoreId;
      return {
        store: await idOf(store.facts),
        results: results ? await idOf(outputs.facts) : null,
      };
    },
    keySecret: () => keySecretOf(store.facts),
    ready: (options) => untilThere(database, options),
    close: async () => {
      outputs.close();
      await database.close();
    },
  };
}

export async function migratePostgres(
  settings: PostgresSettings,
): Promise<{ from: number; to: number }> {
  const database = connectTo(settings, () => Promise.resolve());
  try {
    return await migrate(database, settings.schema);
  } finally {
    await database.close();
  }
}

const connectTo = (
  { url, latest_url, max_connections, patience_ms = PATIENCE_MS }: PostgresSettings,
  check: DatabaseOptions['check'],
): Database =>
  createDatabase({
    url,
    latest_url,
    max_connections,
    patience_ms,
    statement_ms: Math.min(STATEMENT_MS, patience_ms),
    check,
  });

async function untilThere(
  database: Database,
  { say, signal }: Parameters<OpenStore['ready']>[0],
): Promise<void> {
  for (const end = performance.now() + GIVE_UP_MS; ;) {
    const away = await database.look();
    if (away === null || signal?.aborted === true) return;
    if (performance.now() > end) throw new Error(away);
    say(`waiting for ${away}`);
    await sleep(RETRY_MS, undefined, signal && { signal }).catch(() => undefined);
  }
}

const USED = {
  journal: ['select', 'insert', 'delete'],
  batch: ['select', 'insert'],
  sample: ['select', 'insert'],
  fact: ['select', 'insert', 'delete'],
} as const;

/**
 * Does once what a worker does, and leaves nothing: writes a journal with text of all kinds, commits it, reads it and
 * deletes it. Of the other tables it asks the rights.
 */
async function tryOut(database: Database, schema: string): Promise<void> {
  const [mode] = await database.ask<{ read_only: string }>({
    text: `select current_setting('default_transaction_read_only') as read_only`,
  });
  if (mode?.read_only === 'on') throw refused(READ_ONLY);
  await checkRights(database, schema);
  const table = createJournalTable(database, schema);
  // No batch has an id that begins with a dot.
  const rollout = `.check/${randomUUID()}`;
  const lines = '{"text":"— 漢 😀"}\n';
  await table.insert([{ rollout, n: 0, writer: 'check', behind: '', lines }]);
  try {
    const [row] = await table.read(rollout, 0);
    if (row?.lines !== lines)
      throw refused('expected to read back the text that was written, got another one');
  } finally {
    await table.delete([rollout]);
  }
}

async function checkRights(database: Database, schema: string): Promise<void> {
  const wanted = Object.entries(USED).flatMap(([table, rights]) =>
    rights.map((right) => ({ table, right })),
  );
  const lacking = await database.ask<{ role: string; table: string; right: string }>({
    text: `select current_user as role, t.name as table, t.privilege as right
             from unnest($1::text[], $2::text[]) as t (name, privilege)
            where not has_table_privilege(format('%I.%I', $3::text, t.name), t.privilege)`,
    values: [wanted.map(({ table }) => table), wanted.map(({ right }) => right), schema],
  });
  const [first] = lacking;
  if (first === undefined) return;
  const rights = lacking.map(({ table, right }) => `${right} on "${schema}".${table}`);
  throw refused(`role ${first.role} lacks ${rights.join(', ')}: grant it these rights`);
}

const READ_ONLY =
  'default_transaction_read_only is on: alter role or database … set default_transaction_read_only = off';

const refused = (message: string): Error => new Error(message);
