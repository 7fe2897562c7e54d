/** The statements on journals: large rows, as a hostile environment makes them, and tables without statistics. */
import assert from 'node:assert/strict';
import type { TestContext } from 'node:test';
import { describe, test } from 'node:test';
import type { Database } from '../../src/trajectories/postgres/database.js';
import { createDatabase } from '../../src/trajectories/postgres/database.js';
import { createJournalTable } from '../../src/trajectories/postgres/journal-table.js';
import type { PostgresStore } from '../fakes/stores.js';
import { endServer, postgresStore } from '../fakes/stores.js';
import { noPostgres } from '../../lab/bed/postgres-server.js';

const MIB = 2 ** 20;

function databaseOf(own: PostgresStore, t: TestContext): Database {
  const database = createDatabase({
    ...{ url: own.server.url, max_connections: 1, patience_ms: 2000, statement_ms: 10_000 },
    check: () => Promise.resolve(),
  });
  t.after(() => database.close());
  return database;
}

describe('a journal in PostgreSQL', { skip: noPostgres }, () => {
  endServer();

  for (const bytes of [100, 100_000, 3 * MIB])
    test(`of rows of ${bytes} bytes is read up to a megabyte and a row at a time, without a gap`, async (t) => {
      const own = await postgresStore(t);
      const rows = 20;
      await own.query(
        `insert into "${own.schema}".journal select 'b/0-0', n, 'w', repeat('x', ${bytes}) from generate_series(0, ${rows - 1}) as n`,
      );
      const table = createJournalTable(databaseOf(own, t), own.schema);
      const found: number[] = [];
      for (let page = await table.read('b/0-0', 0); page.length > 0;) {
        const size = page.reduce((sum, { lines }) => sum + lines.length, 0);
        assert.ok(size < MIB + bytes, `${size} bytes at once`);
        found.push(...page.map(({ n }) => n));
        page = await table.read('b/0-0', found.length);
      }
      assert.deepEqual(
        found,
        Array.from({ length: rows }, (_, n) => n),
      );
    });

  for (const statistics_of of ['none', 'a small table'])
    test(`is appended to without a scan of the table, with statistics of ${statistics_of}`, async (t) => {
      const own = await postgresStore(t);
      const database = databaseOf(own, t);
      const table = createJournalTable(database, own.schema);
      const names = Array.from({ length: 16 }, (_, row) => `b/${row}-0`).sort();
      const statistics = async (): Promise<{ seq_scan: number; n_tup_ins: number }> => {
        // A connection reports its own within a second, or now.
        await database.ask({ text: 'select pg_stat_force_next_flush()' });
        await database.ask({ text: 'select 1' });
        const [found] = await own.query(
          `select seq_scan::int, n_tup_ins::int from pg_stat_all_tables where schemaname = '${own.schema}' and relname = 'journal'`,
        );
        return found as { seq_scan: number; n_tup_ins: number };
      };
      const insert = async (n: number): Promise<void> => {
        const rows = names.map((rollout) => ({
          rollout,
          n,
          writer: 'w',
          behind: 'w',
          lines: '{}\n',
        }));
        assert.ok((await table.insert(rows)).every(Boolean));
      };
      await insert(0);
      if (statistics_of !== 'none') await own.query(`analyze "${own.schema}".journal`);
      const { seq_scan } = await statistics();
      for (let n = 1; n < 20; n++) await insert(n);
      assert.deepEqual(await statistics(), { seq_scan, n_tup_ins: 20 * names.length });
    });
});
