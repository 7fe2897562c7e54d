import { readFile, readdir } from 'node:fs/promises';
import path from 'node:path';
import type pg from 'pg';
import type { JournalLine } from '../../src/model/journal.js';
import { parseLine } from '../../src/model/journal.js';

/** The journals of a batch as texts, by rollout id. */
export type JournalTexts = Map<string, string>;

/** Those that parse, of every writer. */
export const linesOf = (text: string): JournalLine[] =>
  text
    .split('\n')
    .map(parseLine)
    .filter((line) => line !== null);

/** From a batch's folder `journals`; none if it does not exist yet. */
export async function textsInFolder(journals: string): Promise<JournalTexts> {
  const batch_id = path.basename(path.dirname(journals));
  const names = await readdir(journals).catch(() => []);
  const texts = names.map(async (name): Promise<[string, string]> => {
    const text = await readFile(path.join(journals, name), 'utf8');
    return [`${batch_id}/${path.basename(name, '.jsonl')}`, text];
  });
  return new Map(await Promise.all(texts));
}

export async function textsInTable(
  pool: pg.Pool,
  { schema, batch_id }: { schema: string; batch_id: string },
): Promise<JournalTexts> {
  const { rows } = await pool.query<{ rollout: string; text: string }>({
    name: 'read',
    text: `select rollout, string_agg(lines, '' order by n) as text from ${schema}.journal
            where rollout like $1 group by rollout`,
    values: [`${batch_id}/%`],
  });
  return new Map(rows.map(({ rollout, text }) => [rollout, text]));
}
