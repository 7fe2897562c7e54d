import type { Database } from './database.js';
import type { Tail } from '../journal-end.js';
import type { JournalRow } from './group-commit.js';

export interface StoredRow {
  n: number;
  writer: string;
  lines: string;
}

/** A long journal is not held as a whole: rows at once, and bytes in all but the last of them. */
const PAGE = 200;
const PAGE_BYTES = 2 ** 20;
/** Journals deleted per statement, which has limited time and locks only their rows. */
const DELETED_AT_ONCE = 50;

export type JournalTable = ReturnType<typeof createJournalTable>;

export function createJournalTable(database: Database, schema: string) {
  const table = `"${schema}".journal`;
  return {
    /** In one transaction; returns for each row whether it is stored. */
    insert: (rows: readonly JournalRow[]) => insert(rows, { database, table }),
    /** The first rows from `from` on; there may be more. */
    read: (rollout: string, from: number): Promise<StoredRow[]> =>
      database.ask<StoredRow>({
        name: 'journal_read',
        text: pageText(table),
        values: [rollout, from],
      }),
    writerOf: async (rollout: string, n: number): Promise<string | null> => {
      const [row] = await database.ask<{ writer: string }>({
        name: 'journal_writer',
        text: `select writer from ${table} where rollout = $1 and n = $2`,
        values: [rollout, n],
      });
      return row?.writer ?? null;
    },
    size: async (rollout: string): Promise<number> => {
      const [row] = await database.ask<{ size: string | null }>({
        name: 'journal_size',
        text: `select sum(octet_length(lines)) as size from ${table} where rollout = $1`,
        values: [rollout],
      });
      return Number(row?.size ?? 0);
    },
    /** The last rows, up to this many bytes. */
    tail: async (rollout: string, bytes: number): Promise<Tail> => {
      const rows = await database.ask<{ lines: string; n: number }>({
        name: 'journal_tail',
        text: tailText(table),
        values: [rollout, bytes],
      });
      const text = rows.map(({ lines }) => lines).join('');
      return { bytes: Buffer.from(`\n${text}`), is_whole: (rows[0]?.n ?? 0) === 0 };
    },
    /** The rollouts of a batch that have a journal, by their names after `<batch>/`. */
    list: async (batch: string): Promise<string[]> => {
      // `0` is the character after `/`.
      const rows = await database.ask<{ name: string }>({
        text: `select substr(rollout, $3) as name from ${table} where n = 0 and rollout >= $1 and rollout < $2`,
        values: [`${batch}/`, `${batch}0`, batch.length + 2],
      });
      return rows.map(({ name }) => name);
    },
    delete: async (rollouts: readonly string[]): Promise<void> => {
      for (let first = 0; first < rollouts.length; first += DELETED_AT_ONCE)
        await database.ask({
          name: 'journal_delete',
          text: `delete from ${table} where rollout = any($1)`,
          values: [rollouts.slice(first, first + DELETED_AT_ONCE)],
        });
    },
  };
}

/** The length of rows is known without reading them. */
const pageText = (table: string): string => `select n, writer, lines
  from (select n, writer, lines, sum(octet_length(lines)) over (order by n) - octet_length(lines) as before
          from (select n, writer, lines from ${table} where rollout = $1 and n >= $2 order by n limit ${PAGE}) as page) as t
 where before < ${PAGE_BYTES}
 order by n`;

const tailText = (table: string): string => `select n, lines
  from (select n, lines, sum(octet_length(lines)) over (order by n desc) - octet_length(lines) as behind
          from ${table} where rollout = $1) as t
 where behind < $2
 order by n`;

/**
 * Existing rows are left as they are. A writer that has not read the last row inserts nothing. The row before is found
 * by a scalar subquery, which uses the primary key. The planner may turn `exists` into a hash of the whole table.
 */
const insertText = (table: string): string => `insert into ${table} (rollout, n, writer, lines)
  select t.rollout, t.n, t.writer, t.lines
    from unnest($1::text[], $2::int[], $3::text[], $4::text[], $5::text[]) as t (rollout, n, writer, lines, behind)
   where t.n = 0
      or t.behind = (select j.writer from ${table} j where j.rollout = t.rollout and j.n = t.n - 1)
   order by t.rollout collate "C"
  on conflict do nothing
  returning rollout`;

async function insert(
  rows: readonly JournalRow[],
  { database, table }: { database: Database; table: string },
): Promise<boolean[]> {
  const column = <K extends keyof JournalRow>(key: K): JournalRow[K][] =>
    rows.map((row) => row[key]);
  const result = await database.tell({
    name: 'journal_insert',
    text: insertText(table),
    values: [column('rollout'), column('n'), column('writer'), column('lines'), column('behind')],
  });
  const stored = new Set(result.rows.map(({ rollout }) => rollout as string));
  const others = rows.filter(({ rollout }) => !stored.has(rollout));
  // The lost commit may have been executed. A row after the repeated one is permanent, so it may be read.
  if (result.is_repeated && others.length > 0) {
    const found = await database.ask<{ rollout: string; writer: string | null }>({
      text: `select t.rollout, (select j.writer from ${table} j where j.rollout = t.rollout and j.n = t.n) as writer
               from unnest($1::text[], $2::int[]) as t (rollout, n)`,
      values: [others.map(({ rollout }) => rollout), others.map(({ n }) => n)],
    });
    const writers = new Map(found.map(({ rollout, writer }) => [rollout, writer]));
    for (const { rollout, writer } of others)
      if (writers.get(rollout) === writer) stored.add(rollout);
  }
  return rows.map(({ rollout }) => stored.has(rollout));
}
