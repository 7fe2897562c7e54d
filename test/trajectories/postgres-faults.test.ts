/** What goes wrong between a worker and its database: each says its cause and what helps, and nothing is lost. */
import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import pg from 'pg';
import { Fault } from '../../src/model/faults.js';
import { migratePostgres } from '../../src/trajectories/postgres/open.js';
import { author, entryOf, wholeTurn } from '../fakes/journal-lines.js';
import type { PostgresStore } from '../fakes/stores.js';
import { endServer, postgresStore, throughProxy } from '../fakes/stores.js';
import { REF, faultOf } from '../fakes/temporary-store.js';
import { noPostgres, startPostgres } from '../../lab/bed/postgres-server.js';

const a = author('ignored');
const by = { activity: 'playTurns' };
const never = new AbortController().signal;

const ready = (own: PostgresStore, options: Parameters<PostgresStore['open']>[0] = {}) =>
  own.open(options).ready({ say: () => assert.fail('it does not pass by itself'), signal: never });

describe('a worker that starts', { skip: noPostgres }, () => {
  endServer();

  test('is refused a wrong password, and the error does not hold it', async (t) => {
    const own = await postgresStore(t);
    const url = own.server.url.replace(/:[^:@]*@/, ':not-the-password@');
    await assert.rejects(ready(own, { url }), (error: Error) => {
      assert.match(
        error.message,
        /password authentication failed.*check user and password in the URL/,
      );
      return !error.message.includes('not-the-password');
    });
  });

  test('is refused a database that is not there', async (t) => {
    const own = await postgresStore(t);
    const url = own.server.url.replace(/\/postgres$/, '/nowhere');
    await assert.rejects(ready(own, { url }), /"nowhere" does not exist: create the database/);
  });

  test('is refused a schema without tables, one that is older and one that is newer', async (t) => {
    const own = await postgresStore(t);
    await own.query(`delete from "${own.schema}".schema_version`);
    await assert.rejects(
      ready(own),
      /is at version 0, this release needs 1: run temporal-rollout store migrate/,
    );
    await own.query(`insert into "${own.schema}".schema_version (version) values (99)`);
    await assert.rejects(ready(own), /is at version 99, this release knows 1: use the release/);
    await own.query(`drop table "${own.schema}".schema_version`);
    await assert.rejects(
      ready(own),
      /has no tables of this store: run temporal-rollout store migrate/,
    );
  });

  test('is refused commits that may be lost', async (t) => {
    const own = await postgresStore(t);
    const url = `${own.server.url}?options=${encodeURIComponent('-c synchronous_commit=off')}`;
    await assert.rejects(ready(own, { url }), /synchronous_commit is off.*alter role or database/);
  });

  test('waits for a server that is down, with a message', async (t) => {
    const own = await throughProxy(t);
    own.proxy.close();
    const said: string[] = [];
    await own.open({ url: own.url }).ready({
      say: (line) => {
        said.push(line);
        own.proxy.open();
      },
      signal: never,
    });
    assert.match(
      said[0] ?? '',
      /^waiting for PostgreSQL at 127\.0\.0\.1:\d+\/postgres: .+: see that the server runs/,
    );
  });

  test('waits for a host without an address, with a message', async (t) => {
    const own = await postgresStore(t);
    const url = own.server.url.replace('127.0.0.1', 'nowhere.invalid');
    const end = new AbortController();
    const said: string[] = [];
    const say = (line: string): void => {
      said.push(line);
      end.abort();
    };
    await own.open({ url }).ready({ say, signal: end.signal });
    assert.match(said[0] ?? '', /: see that the host in the URL has an address$/);
  });

  test('ends its wait at the signal to end', async (t) => {
    const own = await throughProxy(t);
    own.proxy.close();
    const end = new AbortController();
    const say = (): void => {
      end.abort();
    };
    await own.open({ url: own.url }).ready({ say, signal: end.signal });
  });
});

describe('migrating', { skip: noPostgres }, () => {
  endServer();

  test('again changes nothing, and what is newer is left as it is', async (t) => {
    const { server, schema, query, outputs } = await postgresStore(t);
    const settings = { url: server.url, schema, max_connections: 2, outputs: { root: outputs } };
    assert.deepEqual(await migratePostgres(settings), { from: 1, to: 1 });
    await query(`insert into "${schema}".schema_version (version) values (7)`);
    assert.deepEqual(await migratePostgres(settings), { from: 7, to: 7 });
  });

  test('by several at once makes the tables once', async (t) => {
    const { server, schema, query, outputs } = await postgresStore(t);
    await query(`drop schema "${schema}" cascade`);
    const settings = { url: server.url, schema, max_connections: 2, outputs: { root: outputs } };
    const done = await Promise.all([1, 2, 3].map(() => migratePostgres(settings)));
    assert.deepEqual(done.map(({ from }) => from).sort(), [0, 1, 1]);
  });
});

describe('a running store', { skip: noPostgres }, () => {
  endServer();

  test('sends a commit again whose answer was lost, and it is written once', async (t) => {
    const own = await throughProxy(t);
    const { store } = own.open({ url: own.url });
    own.proxy.cutAnswers(1);
    const journal = await store.claim(REF, by);
    assert.equal(own.proxy.cuts(), 1);
    await journal.append(entryOf(a.start()));
    own.proxy.cutAnswers(3);
    await journal.sync();
    assert.equal(own.proxy.cuts(), 4);
    for (const line of wholeTurn(a, { turn: 0, ids: [1, 2] })) await journal.append(entryOf(line));
    await journal.commit();
    const kinds = (await own.journalLines()).map(({ kind }) => kind);
    assert.deepEqual(kinds, ['claim', 'start', 'chunk', 'generation', 'observation']);
  });

  test('whose lost commit another claim follows gets that reason', async (t) => {
    const own = await throughProxy(t);
    const { store } = own.open({ url: own.url });
    const first = await store.claim(REF, by);
    await first.append(entryOf(a.start()));
    own.proxy.close();
    const committing = assert.rejects(first.commit(), faultOf('StoreFault', 'taken over'));
    const second = await own.elsewhere().claim(REF, by);
    own.proxy.open();
    await committing;
    assert.equal(second.trajectory.start, null);
    await second.append(entryOf(a.start()));
    await second.commit();
  });

  test('rides out a server that is killed and comes back: nothing that was reported is lost', async (t) => {
    const server = await startPostgres();
    t.after(() => server.stop());
    const own = await postgresStore(t, server);
    const journal = await own.store.claim(REF, by);
    await journal.append(entryOf(a.start()));
    await server.kill();
    const synced = journal.sync();
    await server.start();
    await synced;
    for (const line of wholeTurn(a, { turn: 0, ids: [1, 2] })) await journal.append(entryOf(line));
    await journal.commit();
    assert.equal((await own.elsewhere().readTrajectory(REF)).observations.length, 1);
  });

  test('that is away for longer than the patience is a retryable StoreFault that names the rollout', async (t) => {
    const own = await throughProxy(t);
    const { store } = own.open({ url: own.url, patience_ms: 300 });
    const journal = await store.claim(REF, by);
    await journal.append(entryOf(a.start()));
    own.proxy.close();
    await assert.rejects(journal.commit(), (error: unknown) => {
      assert.ok(error instanceof Fault);
      assert.match(
        error.message,
        /^journal of batch\/0-0: PostgreSQL at 127\.0\.0\.1:\d+\/postgres: .+: see that the server runs, and that host and port/,
      );
      return error.retryable;
    });
    await assert.rejects(
      journal.append(entryOf(a.chunk())),
      faultOf('StoreFault', 'PostgreSQL at'),
    );
    await journal.release();
    own.proxy.open();
    const next = await store.claim(REF, { ...by, attempt: 2 });
    await next.append(entryOf(a.start()));
    await next.commit();
  });

  test('without its tables says how they are made, and continues when they exist', async (t) => {
    const own = await postgresStore(t);
    const { store } = own.open();
    await (await store.claim(REF, by)).commit();
    await own.query(`alter table "${own.schema}".journal rename to gone`);
    await assert.rejects(
      store.claim({ ...REF, row: 1 }, by),
      faultOf('StoreFault', 'journal of batch/1-0', 'run temporal-rollout store migrate'),
    );
    await own.query(`alter table "${own.schema}".gone rename to journal`);
    await (await store.claim({ ...REF, row: 1 }, by)).commit();
  });

  test('that is restored to an earlier moment has journals as they were then, whatever was cached', async (t) => {
    const own = await postgresStore(t);
    const { store } = own.open();
    const journal = await store.claim(REF, by);
    await journal.append(entryOf(a.start()));
    await journal.commit();
    const next = await store.claim(REF, by);
    for (const line of wholeTurn(a, { turn: 0, ids: [1, 2] })) await next.append(entryOf(line));
    await next.commit();
    const rows = await own.query(`select max(n) as last from "${own.schema}".journal`);
    const last = Number(rows[0]?.['last']);
    await own.query(`delete from "${own.schema}".journal where n = ${last}`);
    const earlier = await store.claim(REF, by);
    assert.deepEqual(
      [earlier.trajectory.start !== null, earlier.trajectory.observations.length],
      [true, 0],
    );
    await earlier.commit();
    await own.query(`delete from "${own.schema}".journal`);
    const lost = await store.claim(REF, by);
    assert.equal(lost.trajectory.start, null);
    await lost.append(entryOf(a.start()));
    await lost.commit();
    assert.notEqual((await own.elsewhere().readTrajectory(REF)).start, null);
  });

  test('whose server took its connections away continues with others', async (t) => {
    const own = await postgresStore(t);
    const { store } = own.open();
    const journal = await store.claim(REF, by);
    await own.query(
      `select pg_terminate_backend(pid) from pg_stat_activity where application_name = 'durable-rollouts'`,
    );
    await journal.append(entryOf(a.start()));
    await journal.commit();
  });

  test('lets one row fail alone', async (t) => {
    const own = await postgresStore(t);
    const { store } = own.open();
    await own.query(
      `alter table "${own.schema}".journal add constraint small check (length(lines) < 10000)`,
    );
    const rows = [0, 1, 2];
    const claimed = await Promise.all(rows.map((row) => store.claim({ ...REF, row }, by)));
    await claimed[1]?.append(entryOf(a.start({ task_name: 'x'.repeat(20_000) })));
    const done = await Promise.allSettled(claimed.map((journal) => journal.commit()));
    assert.deepEqual(
      done.map(({ status }) => status),
      ['fulfilled', 'rejected', 'fulfilled'],
    );
  });
});

test('a URL is never part of what a store says', { skip: noPostgres }, async () => {
  const client = new pg.Client({ connectionString: 'postgres://u:secret-word@127.0.0.1:1/d' });
  await assert.rejects(client.connect(), (error: Error) => !error.message.includes('secret-word'));
});
