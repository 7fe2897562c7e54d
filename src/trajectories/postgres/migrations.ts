import type { Ask, Database } from './database.js';

/** The tables of a schema, version by version. An entry is never changed; each change is a new entry. */
const MIGRATIONS: ((schema: string) => string[])[] = [
  (schema) => [
    // Texts are compared byte by byte, because a batch's journals are a range of names.
    `create table ${schema}.journal (
       rollout text collate "C" not null, n integer not null, writer text not null, lines text not null,
       primary key (rollout, n))`,
    // One short entry for each journal: listing a batch does not read what its rollouts wrote.
    `create index journal_first on ${schema}.journal (rollout) where n = 0`,
    `create table ${schema}.batch (
       batch_id text collate "C" primary key, request text not null, request_digest text not null,
       samples integer not null, samples_digest text not null)`,
    `create table ${schema}.sample (
       batch_id text collate "C" not null, "row" integer not null, sample text not null,
       primary key (batch_id, "row"))`,
    `create table ${schema}.fact (
       series text collate "C" not null, n integer not null, fact text not null, primary key (series, n))`,
  ],
];

export const SCHEMA_VERSION = MIGRATIONS.length;

/** Two concurrent migrations wait for each other. */
const LOCK = 0x6475_7261;

/**
 * Brings the schema to this release's version; a newer one is left as it is. Returns both versions. PostgreSQL checks
 * the right to make a thing before it looks whether the thing exists, so only what is missing is made.
 */
export async function migrate(
  database: Database,
  schema: string,
): Promise<{ from: number; to: number }> {
  const name = `"${schema}"`;
  return await database.transaction(async (ask) => {
    await ask({ text: 'select pg_advisory_xact_lock($1)', values: [LOCK] });
    const [there] = await ask<{ schema: boolean; table: boolean }>({
      text: `select to_regnamespace($1) is not null as schema, to_regclass($2) is not null as table`,
      values: [name, `${name}.schema_version`],
    });
    if (there?.schema !== true) await createSchema(name, ask);
    if (there?.table !== true)
      await ask({
        text: `create table ${name}.schema_version (version integer primary key, at timestamptz not null default now())`,
      });
    const [found] = await ask<{ version: number | null }>({
      text: `select max(version) as version from ${name}.schema_version`,
    });
    const from = found?.version ?? 0;
    for (let version = from + 1; version <= SCHEMA_VERSION; version++) {
      for (const text of MIGRATIONS[version - 1]?.(name) ?? []) await ask({ text });
      await ask({
        text: `insert into ${name}.schema_version (version) values ($1)`,
        values: [version],
      });
    }
    return { from, to: Math.max(from, SCHEMA_VERSION) };
  });
}

async function createSchema(name: string, ask: Ask): Promise<void> {
  try {
    await ask({ text: `create schema ${name}` });
  } catch (cause) {
    if (!(cause instanceof Error && 'code' in cause && cause.code === '42501')) throw cause;
    // Without its code, the error has no other remedy.
    const { message } = cause;
    throw new Error(
      `${message}: grant the role of the URL create on the database, or let another role run: create schema ${name} authorization ROLE`,
      { cause },
    );
  }
}
