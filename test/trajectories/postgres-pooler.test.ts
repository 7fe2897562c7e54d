/** Stores behind a pooler that gives each transaction whatever connection is free. */
import assert from 'node:assert/strict';
import type { TestContext } from 'node:test';
import { describe, test } from 'node:test';
import pg from 'pg';
import { isPassing, remedyFor } from '../../src/trajectories/postgres/faults.js';
import { author, entryOf, wholeTurn } from '../fakes/journal-lines.js';
import type { PostgresStore } from '../fakes/stores.js';
import { endServer, postgresStore } from '../fakes/stores.js';
import { REF } from '../fakes/temporary-store.js';
import { noPostgres } from '../../lab/bed/postgres-server.js';
import { startTransactionPooler } from '../harness/transaction-pooler.js';

const a = author('ignored');
const by = { activity: 'playTurns' };

/** Two stores in one database, and the URL that leads to it through a pooler. */
async function behindPooler(
  t: TestContext,
  shows: 'its own' | "the server's",
): Promise<{ stores: PostgresStore[]; url: string }> {
  const stores = [await postgresStore(t), await postgresStore(t)];
  const { port, url } = stores[0]!.server;
  const pooler = await startTransactionPooler({ port, shows });
  t.after(() => pooler.end());
  return { stores, url: url.replace(`:${port}/`, `:${pooler.port}/`) };
}

const rowsOf = async ({ query, schema }: PostgresStore): Promise<unknown[]> =>
  (await query(`select rollout from "${schema}".journal order by rollout, n`)).map(
    ({ rollout }) => rollout,
  );

async function play(own: PostgresStore, { url, row }: { url: string; row: number }): Promise<void> {
  const journal = await own.open({ url, patience_ms: 2000 }).store.claim({ ...REF, row }, by);
  for (const line of [a.start(), ...wholeTurn(a, { turn: 0, ids: [1, 2] })])
    await journal.append(entryOf(line));
  await journal.commit();
}

describe('behind a pooler of transactions', { skip: noPostgres }, () => {
  endServer();

  test('rows of two stores of one database land each in its own tables', async (t) => {
    const { stores, url } = await behindPooler(t, 'its own');
    await Promise.all(stores.map((own, row) => play(own, { url, row })));
    // The same process once more, and another one, on connections that both know by now.
    await Promise.all(stores.map((own, row) => play(own, { url, row: row + 10 })));
    for (const [row, own] of stores.entries()) {
      const names = [row, row + 10].flatMap((one) => [`batch/${one}-0`, `batch/${one}-0`]);
      assert.deepEqual(await rowsOf(own), names.sort());
    }
    const trajectory = await stores[1]!.open({ url }).store.readTrajectory({ ...REF, row: 11 });
    assert.equal(trajectory.observations.length, 1);
  });

  test('other clients get no settings of a store', async (t) => {
    const { stores, url } = await behindPooler(t, 'its own');
    await play(stores[0]!, { url, row: 0 });
    const client = new pg.Client({ connectionString: url });
    await client.connect();
    t.after(() => client.end());
    for (const [name, value] of [
      ['enable_seqscan', 'on'],
      ['statement_timeout', '0'],
    ] as const)
      assert.deepEqual((await client.query(`show ${name}`)).rows, [{ [name]: value }]);
  });

  test('that hides itself, no row lands in the tables of another store, and the reason is said', async (t) => {
    const { stores, url } = await behindPooler(t, "the server's");
    const done = await Promise.allSettled(
      [0, 1, 0, 1].map((which, row) => play(stores[which]!, { url, row })),
    );
    const reasons = done.flatMap((one) => (one.status === 'rejected' ? [String(one.reason)] : []));
    assert.notEqual(reasons.length, 0);
    for (const reason of reasons)
      assert.match(
        reason,
        /prepared statement .*: a pooler breaks prepared statements: set it to pool by session/,
      );
    for (const [which, own] of stores.entries())
      for (const name of await rowsOf(own))
        assert.match(String(name), which === 0 ? /[02]-0$/ : /[13]-0$/);
  });
});

test('a violation of the protocol does not pass, a pooler without a free connection does', () => {
  const of = (message: string): Error => Object.assign(new Error(message), { code: '08P01' });
  for (const text of [
    'prepared statement name is already in use',
    'unsupported startup parameter: statement_timeout',
    'bind message supplies 5 parameters, but prepared statement "a" requires 4',
  ])
    assert.ok(!isPassing(of(text)) && /a pooler in between/.test(remedyFor(of(text))), text);
  for (const text of [
    'query_wait_timeout',
    'server conn crashed?',
    'no more connections allowed (max_client_conn)',
  ])
    assert.ok(isPassing(of(text)), text);
  assert.ok(isPassing(Object.assign(new Error('gone'), { code: '08006' })));
});
