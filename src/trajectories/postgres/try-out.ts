import { randomUUID } from 'node:crypto';
import type { Database } from './database.js';
import { createJournalTable } from './journal-table.js';

/** What workers do with each table. */
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
export async function tryOut(database: Database, schema: string): Promise<void> {
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
    if (row?.lines !== lines) throw refused('what is written is not what is read');
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
