/** A worker survives a loss of its connection to the database, and a failover to a standby. */
import assert from 'node:assert/strict';
import { after, before, describe, test } from 'node:test';
import { setTimeout as sleep } from 'node:timers/promises';
import { openPostgresStore } from '../../src/trajectories/postgres/open.js';
import { author, entryOf } from '../fakes/journal-lines.js';
import type { BatchOutcome } from '../../lab/bed/batch.js';
import type { PostgresBed } from '../../lab/bed/postgres-bed.js';
import { query, startPostgresBed } from '../../lab/bed/postgres-bed.js';
import type { PostgresServer } from '../../lab/bed/postgres-server.js';
import { noPostgres, startPostgres } from '../../lab/bed/postgres-server.js';
import { puzzleBatch } from '../../lab/bed/bed.js';
import {
  assertNotGeneratedAgain,
  countTurns,
  createTurnClock,
  playUndisturbed,
} from '../harness/recovery-runs.js';
import { assertComplete, assertSameOutcome } from '../harness/row-comparison.js';

const SIZE = { samples: 6, repeats: 4 };
const BATCH = 'struck';
const REQUEST = puzzleBatch({ ...SIZE, max_in_flight: 24 });
/** The worker's patience; then its rollouts fail. */
const PATIENCE_S = 4;

describe('a database with a synchronous standby', { skip: noPostgres }, () => {
  let primary: PostgresServer;
  let standby: PostgresServer;
  let tables: PostgresBed;
  let undisturbed: BatchOutcome;

  before(async () => {
    primary = await startPostgres({ fsync: 'on', synchronous_standby_names: '*' });
    standby = await primary.standby();
    const stores = ['alone', 'cut_off', 'failed_over'];
    const workers = ['first', 'second', 'only'];
    tables = await startPostgresBed({
      name: 'failover',
      server: primary,
      stores,
      workers,
      patience: `${PATIENCE_S}s`,
    });
    await tables.bed.observed(async () => {
      undisturbed = await playUndisturbed(tables.bed, { batch_id: BATCH, request: REQUEST });
      await tables.bed.simulator().change({ tokens_per_second: 120, ms_to_first_token: 50 });
    });
  });
  after(async () => {
    await tables.end();
    await primary.stop();
  });

  const share = (part: number): number => Math.ceil(part * countTurns(undisturbed));

  test('reports no commit that the standby has not got', async (t) => {
    const opened = openPostgresStore({
      url: primary.url,
      schema: 'alone',
      max_connections: 2,
      max_cached_bytes: 0,
      max_request_bytes: 0,
      outputs: { root: tables.bed.storeRoot('alone') },
    });
    t.after(opened.close);
    const journal = await opened.store.claim(
      { batch_id: BATCH, row: 0, repeat: 0 },
      { activity: 'playTurns' },
    );
    process.kill(standby.pid(), 'SIGSTOP');
    await query(primary.url, `select pg_terminate_backend(pid) from pg_stat_replication`);
    await journal.append(entryOf(author('ignored').start()));
    const state = { is_reported: false };
    const commit = journal.commit().then(() => (state.is_reported = true));
    await sleep(2000);
    assert.equal(state.is_reported, false);
    process.kill(standby.pid(), 'SIGCONT');
    await commit;
  });

  test('from which one of two workers is cut off, though not from Temporal, costs nothing', async () => {
    const { bed, proxy, copyTables, historiesOf } = tables;
    await bed.observed(async () => {
      const first = await bed.startWorker('cut_off', 'first');
      const second = await bed.startWorker('cut_off', 'second');
      const untilTurn = await createTurnClock(bed);
      const batch = bed.batch('cut_off', BATCH);
      await batch.start(REQUEST);
      await untilTurn(share(0.15));
      proxy('first').close();
      const copy = await copyTables('cut_off', primary.url);
      await sleep(2000 * PATIENCE_S);
      proxy('first').open();
      const outcome = await batch.outcome();
      assert.deepEqual([first.ownEnds(), second.ownEnds()], [0, 0]);
      await first.stop();
      await second.stop();
      assertComplete(outcome, SIZE);
      assertSameOutcome(outcome, undisturbed);
      await assertNotGeneratedAgain(bed, [copy]);
      assert.match(await historiesOf('cut_off'), /StoreFault/);
    });
  });

  test('that dies while commits are open continues in its standby, without another worker', async () => {
    const { bed, proxy, copyTables, historiesOf } = tables;
    await bed.observed(async () => {
      const worker = await bed.startWorker('failed_over', 'only');
      const pid = worker.pid();
      const untilTurn = await createTurnClock(bed);
      const batch = bed.batch('failed_over', BATCH);
      await batch.start(REQUEST);
      await untilTurn(share(0.3));
      const copy = await copyTables('failed_over', primary.url);
      await primary.kill();
      // Before the standby accepts writes.
      proxy('only').lead(standby.port);
      await sleep(1000);
      await query(standby.url, 'select pg_promote()');
      const outcome = await batch.outcome();
      assert.deepEqual([worker.ownEnds(), worker.pid()], [0, pid]);
      await worker.stop();
      assertComplete(outcome, SIZE);
      assertSameOutcome(outcome, undisturbed);
      await assertNotGeneratedAgain(bed, [copy]);
      assert.match(await historiesOf('failed_over'), /playTurns/);
    });
  });
});
