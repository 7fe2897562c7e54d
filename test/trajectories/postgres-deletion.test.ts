/** Journals that are deleted while others are written, and writers who come too late. */
import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import pg from 'pg';
import { author, entryOf, wholeTurn } from '../fakes/journal-lines.js';
import type { PostgresStore } from '../fakes/stores.js';
import { endServer, postgresStore, throughProxy } from '../fakes/stores.js';
import { REF, faultOf } from '../fakes/temporary-store.js';
import { noPostgres } from '../../lab/bed/postgres-server.js';
import { eventually } from '../../lab/bed/waiting.js';
import { turnsOf } from '../../src/model/journal/calls.js';

const a = author('ignored');
const by = { activity: 'playTurns' };
const FIRST = { batch_id: REF.batch_id, rows: [0], repeats: 1 };

const rowsOf = async (own: PostgresStore): Promise<unknown[]> =>
  await own.query(`select rollout, n from "${own.schema}".journal order by rollout, n`);

describe('journals in PostgreSQL that are deleted', { skip: noPostgres }, () => {
  endServer();

  test('are taken up from the first row when they are written anew', async (t) => {
    const own = await postgresStore(t);
    const { store } = own.open();
    const first = await store.claim(REF, by);
    await first.append(entryOf(a.start()));
    await first.commit();
    await own.query(`delete from "${own.schema}".journal`);
    const second = await store.claim(REF, by);
    assert.deepEqual([second.trajectory.start, second.trajectory.attempts], [null, 1]);
    await second.commit();
  });

  test('go beside open transactions, their own and others: neither waits', async (t) => {
    const own = await postgresStore(t);
    const { store } = own.open({ patience_ms: 2000 });
    for (const row of [0, 1, 2]) await (await store.claim({ ...REF, row }, by)).commit();
    const other = new pg.Client({ connectionString: own.server.url });
    await other.connect();
    t.after(() => other.end());
    await other.query('begin');
    await other.query(`insert into "${own.schema}".journal values ('batch/1-0', 1, 'w', '')`);
    await other.query(`delete from "${own.schema}".journal where rollout = 'batch/2-0'`);
    await store.forgetJournals({ batch_id: REF.batch_id, rows: [0], repeats: 3 });
    for (const row of [0, 3]) await (await store.claim({ ...REF, row }, by)).commit();
    await other.query('rollback');
    const rows = (await store.listJournals(REF.batch_id)).map(({ row }) => row);
    assert.deepEqual(rows.sort(), [0, 1, 2, 3]);
  });

  test('refuse who comes too late, and keep no row of theirs', async (t) => {
    const own = await postgresStore(t);
    const late = await own.open().store.claim(REF, by);
    await late.append(entryOf(a.start()));
    await late.sync();
    await own.store.forgetJournals(FIRST);
    await late.append(entryOf(a.chunk()));
    await assert.rejects(late.commit(), faultOf('StoreFault', 'taken over'));
    assert.deepEqual(await rowsOf(own), []);
    assert.deepEqual(await own.store.listJournals(REF.batch_id), []);
  });

  test('refuse a commit that was on its way, whether it had been carried out or not', async (t) => {
    const own = await throughProxy(t);
    for (const was_carried_out of [true, false]) {
      const late = await own.open({ url: own.url }).store.claim(REF, by);
      await late.append(entryOf(a.start()));
      if (was_carried_out) own.proxy.cutAnswers(1, { then_close: true });
      else own.proxy.close();
      const refused = assert.rejects(late.commit(), faultOf('StoreFault', 'taken over'));
      await eventually('the commit', async () => {
        const lost = was_carried_out ? own.proxy.cuts() === 1 : true;
        return lost && (await rowsOf(own)).length === (was_carried_out ? 2 : 1);
      });
      await own.store.forgetJournals(FIRST);
      own.proxy.open();
      await refused;
      assert.deepEqual(await rowsOf(own), []);
    }
  });

  test('leave nothing that counts of a row which was inserted while they went', async (t) => {
    const own = await postgresStore(t);
    await own.query(`insert into "${own.schema}".journal values ($1, 5, 'w', $2)`, [
      `${REF.batch_id}/0-0`,
      `${JSON.stringify(author('w').start())}\n`,
    ]);
    assert.deepEqual(await own.store.listJournals(REF.batch_id), []);
    assert.equal((await own.store.readTrajectory(REF)).start, null);
    const next = await own.open().store.claim(REF, by);
    assert.equal(next.trajectory.start, null);
    for (const line of [a.start(), ...wholeTurn(a, { turn: 0, ids: [1, 2] })])
      await next.append(entryOf(line));
    await next.commit();
    for (const store of [own.store, own.elsewhere()]) {
      const played = await store.readTrajectory(REF);
      const { attempts } = played;
      const turns = turnsOf(played);
      assert.deepEqual([turns.length, attempts], [1, 1]);
    }
    await own.store.forgetJournals(FIRST);
    assert.deepEqual(await rowsOf(own), []);
  });

  test('are deleted while another batch is written: each of its commits is kept', async (t) => {
    const own = await postgresStore(t);
    const gone = Array.from({ length: 120 }, (_, row) => row);
    const claims = gone.map((row) => own.store.claim({ batch_id: 'gone', row, repeat: 0 }, by));
    for (const journal of await Promise.all(claims)) await journal.commit();
    const { store } = own.open();
    const journal = await store.claim(REF, by);
    await journal.append(entryOf(a.start()));
    const state = { is_over: false };
    const forgetting = own.store
      .forgetJournals({ batch_id: 'gone', rows: gone, repeats: 1 })
      .finally(() => (state.is_over = true));
    let turn = 0;
    for (; turn < 10 || !state.is_over; turn++) {
      for (const line of wholeTurn(a, { turn, ids: [1, 2] })) await journal.append(entryOf(line));
      await journal.sync();
    }
    await forgetting;
    await journal.commit();
    assert.equal((await own.elsewhere().readTrajectory(REF)).observations.length, turn);
    assert.deepEqual(await own.store.listJournals('gone'), []);
    assert.deepEqual(await own.store.listJournals(REF.batch_id), [{ row: 0, repeat: 0 }]);
  });
});
