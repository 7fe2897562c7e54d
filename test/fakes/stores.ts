import { AsyncResource } from 'node:async_hooks';
import { randomUUID } from 'node:crypto';
import { existsSync } from 'node:fs';
import { cp, mkdir, writeFile } from 'node:fs/promises';
import path from 'node:path';
import type { TestContext } from 'node:test';
import { after, describe } from 'node:test';
import pg from 'pg';
import type { JournalLine } from '../../src/model/journal.js';
import { isJournalCommit } from '../../lab/bed/postgres-bed.js';
import { linesOf } from '../../lab/bed/journal-texts.js';
import type { OutputSettings } from '../../src/trajectories/outputs-place.js';
import { migratePostgres, openPostgresStore } from '../../src/trajectories/postgres/open.js';
import type { OpenStore, TrajectoryStore } from '../../src/trajectories/trajectory-store.js';
import type { CutProxy } from '../../lab/bed/cut-proxy.js';
import { startCutProxy } from '../../lab/bed/cut-proxy.js';
import type { PostgresServer } from '../../lab/bed/postgres-server.js';
import { noPostgres, startPostgres } from '../../lab/bed/postgres-server.js';
import { BATCH, temporaryFolder, temporaryStore } from './temporary-store.js';

/** What tests of the store's interface use of a store. */
export interface AnyStore {
  store: TrajectoryStore;
  /** The same trajectories, read by another process without any cache. */
  elsewhere: () => TrajectoryStore;
  /** The folder of a batch's results. */
  outputs: string;
  /** The content of the journal of row 0, repeat 0. */
  journalLines: () => Promise<JournalLine[]>;
  /** Writes these lines in order; texts as they are. */
  putLines: (lines: readonly (JournalLine | string)[]) => Promise<void>;
  /** Another batch with the same journals, facts and results: many times faster than playing it again. */
  copyBatch: (from: string, to: string) => Promise<void>;
  /** Runs of a property; this many take a second or two. */
  most_runs: number;
}

export type OpenAny = (t: Pick<TestContext, 'after'>) => Promise<AnyStore>;

const ofFiles: OpenAny = async (t) => {
  const { root, ...files } = await temporaryStore(t);
  return {
    ...files,
    outputs: root,
    most_runs: Infinity,
    copyBatch: (from, to) => copyFolder(root, { from, to }),
    putLines: async (lines) => {
      const file = files.journalFile();
      await mkdir(path.dirname(file), { recursive: true });
      // A claim begins with a line feed of its own; a text is torn.
      const texts = lines.map((line) => {
        if (typeof line === 'string') return line;
        return `${line.kind === 'claim' ? '\n' : ''}${JSON.stringify(line)}\n`;
      });
      await writeFile(file, texts.join(''));
    },
  };
};

async function copyFolder(root: string, { from, to }: { from: string; to: string }): Promise<void> {
  const folder = path.join(root, from);
  if (existsSync(folder)) await cp(folder, path.join(root, to), { recursive: true });
}

export interface PostgresStore extends AnyStore {
  server: PostgresServer;
  schema: string;
  /** Queries as an administrator. */
  query: (text: string, values?: unknown[]) => Promise<Record<string, unknown>[]>;
  /** Another process, whose connections go through the test's proxy. */
  open: (options?: {
    url?: string;
    patience_ms?: number;
    max_cached_bytes?: number;
    outputs?: OutputSettings;
  }) => OpenStore;
}

let shared: Promise<PostgresServer> | null = null;

/** One server for the process's tests, a schema for each store. */
function sharedServer(): Promise<PostgresServer> {
  shared ??= startPostgres();
  return shared;
}

/** Whatever runs in it is outside any test or suite. */
const outside = new AsyncResource('outside tests');
let isEnded = false;

/** Ends after all tests of the process, which may be those of several files. */
export function endServer(): void {
  if (isEnded) return;
  isEnded = true;
  outside.runInAsyncScope(() => {
    after(async () => {
      await (await shared)?.stop();
    });
  });
}

export async function postgresStore(
  t: Pick<TestContext, 'after'>,
  own?: PostgresServer,
): Promise<PostgresStore> {
  const server = own ?? (await sharedServer());
  const outputs = path.join(await temporaryFolder(t), 'outputs');
  const schema = `t_${randomUUID().replaceAll('-', '')}`;
  const settings = { url: server.url, schema, max_connections: 4, outputs: { root: outputs } };
  await migratePostgres(settings);
  const opened: OpenStore[] = [];
  const open: PostgresStore['open'] = (options = {}) => {
    const one = openPostgresStore({
      max_cached_bytes: 1_000_000,
      max_request_bytes: 1_000_000,
      ...settings,
      ...options,
    });
    opened.push(one);
    return one;
  };
  const pool = new pg.Pool({ connectionString: server.url, max: 2 });
  pool.on('error', () => undefined);
  t.after(async () => {
    await Promise.all(opened.map((one) => one.close()));
    await pool.end();
  });
  const query: PostgresStore['query'] = async (text, values) =>
    (await pool.query(text, values)).rows as Record<string, unknown>[];
  return {
    store: open().store,
    most_runs: 60,
    elsewhere: () => open().store,
    outputs,
    server,
    schema,
    query,
    open,
    copyBatch: async (from, to) => {
      const moved = (key: string) => `$2::text || substr(${key}, length($1) + 1)`;
      const texts = [
        `journal select ${moved('rollout')}, n, writer, lines from "${schema}".journal
           where starts_with(rollout, $1 || '/')`,
        `fact select ${moved('series')}, n, fact from "${schema}".fact
           where starts_with(series, $1 || '/')`,
        `sample select $2, "row", sample from "${schema}".sample where batch_id = $1`,
        `batch select $2, request, request_digest, samples, samples_digest from "${schema}".batch
           where batch_id = $1`,
      ];
      for (const text of texts) await query(`insert into "${schema}".${text}`, [from, to]);
      await copyFolder(outputs, { from, to });
    },
    journalLines: async () => {
      const rows = await query(
        `select lines from "${schema}".journal where rollout = $1 order by n`,
        [`${BATCH}/0-0`],
      );
      return linesOf(rows.map(({ lines }) => String(lines)).join('\n'));
    },
    putLines: async (lines) => {
      const rows = lines.map((line) =>
        typeof line === 'string'
          ? { writer: '', text: `${line}\n` }
          : { writer: line.writer, text: `${JSON.stringify(line)}\n` },
      );
      await query(`delete from "${schema}".journal where rollout = $1`, [`${BATCH}/0-0`]);
      await query(
        `insert into "${schema}".journal (rollout, n, writer, lines)
           select $1, t.k - 1, t.writer, t.lines
             from unnest($2::text[], $3::text[]) with ordinality as t (writer, lines, k)`,
        [`${BATCH}/0-0`, rows.map(({ writer }) => writer), rows.map(({ text }) => text)],
      );
    },
  };
}

/** Its `url` leads through a proxy. */
export async function throughProxy(
  t: Pick<TestContext, 'after'>,
): Promise<PostgresStore & { proxy: CutProxy; url: string }> {
  const own = await postgresStore(t);
  const { port, url } = own.server;
  const proxy = await startCutProxy({ port, isCommit: isJournalCommit });
  t.after(() => proxy.end());
  return { ...own, proxy, url: url.replace(`:${port}/`, `:${proxy.port}/`) };
}

/** Runs the same tests on each kind of store. */
export function onEachStore(tests: (open: OpenAny) => void): void {
  describe('in files', () => {
    tests(ofFiles);
  });
  describe('in PostgreSQL', { skip: noPostgres }, () => {
    endServer();
    tests((t) => postgresStore(t));
  });
}
