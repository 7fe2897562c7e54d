/** Journals whose rows are large, as a hostile environment makes them. */
import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { createDatabase } from '../../src/trajectories/postgres/database.js';
import { createJournalTable } from '../../src/trajectories/postgres/journal-table.js';
import { endServer, postgresStore } from '../fakes/stores.js';
import { noPostgres } from '../harness/postgres-server.js';

const MIB = 2 ** 20;

describe('a journal in PostgreSQL', { skip: noPostgres }, () => {
  endServer();

  for (const bytes of [100, 100_000, 3 * MIB])
    test(`of rows of ${bytes} bytes is read up to a megabyte and a row at a time, without a gap`, async (t) => {
      const own = await postgresStore(t);
      const rows = 20;
      await own.query(
        `insert into "${own.schema}".journal select 'b/0-0', n, 'w', repeat('x', ${bytes}) from generate_series(0, ${rows - 1}) as n`,
      );
      const database = createDatabase({
        ...{ url: own.server.url, max_connections: 1, patience_ms: 2000, statement_ms: 10_000 },
        check: () => Promise.resolve(),
      });
      t.after(() => database.close());
      const table = createJournalTable(database, own.schema);
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
});
