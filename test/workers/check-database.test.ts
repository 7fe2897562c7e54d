/** What `check` and `store migrate` say of a database that answers. */
import assert from 'node:assert/strict';
import path from 'node:path';
import type { TestContext } from 'node:test';
import { describe, test } from 'node:test';
import { checkStore } from '../../src/workers/check/check-store.js';
import { Config } from '../../src/workers/config.js';
import { migrateStore } from '../../src/workers/open-store.js';
import type { PostgresStore } from '../fakes/stores.js';
import { endServer, postgresStore } from '../fakes/stores.js';
import { temporaryFolder } from '../fakes/temporary-store.js';
import { noPostgres } from '../../lab/bed/postgres-server.js';

const PASSWORD = 'of-the-role-1234';

interface Deployed {
  own: PostgresStore;
  /** A role that may log in, and use the schema. */
  role: string;
  config: Config;
  env: { DATABASE: string };
}

async function deployed(
  t: TestContext,
  { database }: { database?: string } = {},
): Promise<Deployed> {
  const own = await postgresStore(t);
  const { schema, query, server } = own;
  const role = schema.replace('t_', 'r_');
  await query(`create role "${role}" login password '${PASSWORD}'`);
  await query(`grant usage on schema "${schema}" to "${role}"`);
  const url = new URL(server.url);
  Object.assign(url, { username: role, password: PASSWORD });
  if (database !== undefined) url.pathname = `/${database}`;
  const outputs = { root: path.join(await temporaryFolder(t), 'out') };
  const store = { kind: 'postgres', url_env: 'DATABASE', schema, outputs };
  const config = Config.parse({ store, generation: {}, environments: {} });
  return { own, role, config, env: { DATABASE: url.href } };
}

const checked = async ({ config, env }: Pick<Deployed, 'config' | 'env'>) => {
  const found = await checkStore(config, { env, file: undefined });
  const { state, what, remedy = '' } = found.find(({ part }) => part === 'store postgres')!;
  return { state, what, remedy };
};

const ALL = 'select, insert, delete on all tables in schema';

describe('a database', { skip: noPostgres }, () => {
  endServer();

  test('in which the role may do everything is ok, and nothing of the try stays', async (t) => {
    const one = await deployed(t);
    const { own, role } = one;
    await own.query(`grant ${ALL} "${own.schema}" to "${role}"`);
    assert.deepEqual(await checked(one), {
      state: 'ok',
      what: 'can be written and read',
      remedy: '',
    });
    assert.deepEqual(await own.query(`select * from "${own.schema}".journal`), []);
  });

  test('in which the role may not write is broken, with each right that it lacks', async (t) => {
    const one = await deployed(t);
    const { own, role } = one;
    await own.query(`grant select on all tables in schema "${own.schema}" to "${role}"`);
    const { state, what, remedy } = await checked(one);
    assert.equal(state, 'broken');
    for (const right of ['insert on', 'delete on'])
      for (const table of ['journal', 'fact'])
        assert.ok(what.includes(`${right} "${own.schema}".${table}`), what);
    assert.ok(!what.includes('select on'), what);
    assert.match(remedy, /^the database answers: change there what it says/);
  });

  test('that is read-only by setting is broken, with the setting', async (t) => {
    const one = await deployed(t);
    const { own, role } = one;
    await own.query(`grant ${ALL} "${own.schema}" to "${role}"`);
    await own.query(`alter role "${role}" set default_transaction_read_only = on`);
    const { state, what } = await checked(one);
    assert.equal(state, 'broken');
    assert.match(what, /default_transaction_read_only/);
  });

  test('of another encoding than UTF8 is broken, with its encoding', async (t) => {
    const one = await deployed(t);
    const database = `${one.role}_latin`;
    await one.own.query(
      `create database "${database}" encoding 'LATIN1' locale 'C' template template0`,
    );
    const url = new URL(one.env.DATABASE);
    url.pathname = `/${database}`;
    const { state, what, remedy } = await checked({ ...one, env: { DATABASE: url.href } });
    assert.equal(state, 'broken');
    assert.match(what, /encoding LATIN1.*expected UTF8; make one with create database/);
    assert.doesNotMatch(remedy, /start the database/);
  });

  test('that refuses the password is not called one to start', async (t) => {
    const one = await deployed(t);
    const url = one.env.DATABASE.replace(PASSWORD, 'another-one-1234');
    const { state, remedy } = await checked({ ...one, env: { DATABASE: url } });
    assert.equal(state, 'broken');
    assert.match(remedy, /^the database answers: .*store\.url_env: DATABASE$/);
  });
});

describe('store migrate', { skip: noPostgres }, () => {
  endServer();

  test('needs no right that it does not use: on a whole schema, on one of its own, on none', async (t) => {
    const { own, role, config, env } = await deployed(t);
    const { schema, query } = own;
    await query(`grant select on all tables in schema "${schema}" to "${role}"`);
    assert.match(await migrateStore(config, env), /is at version 1: nothing to do$/);
    await query(`drop schema "${schema}" cascade`);
    await assert.rejects(
      migrateStore(config, env),
      new RegExp(
        `permission denied for database postgres: grant the role .* or let another role run: create schema "${schema}" authorization`,
      ),
    );
    await query(`create schema "${schema}" authorization "${role}"`);
    assert.match(await migrateStore(config, env), /is at version 1, it was at 0$/);
  });

  test('of an older release says so of a newer schema, and changes nothing', async (t) => {
    const { own, config } = await deployed(t);
    await own.query(`insert into "${own.schema}".schema_version (version) values (7)`);
    await assert.rejects(
      migrateStore(config, { DATABASE: own.server.url }),
      /is at version 7, this release knows 1: use the release that migrated it/,
    );
  });
});
