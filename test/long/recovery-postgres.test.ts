/**
 * Journals in PostgreSQL: killing anything between a worker and its rows costs no turn, and the rows equal those of
 * files.
 */
import assert from 'node:assert/strict';
import { after, before, describe, test } from 'node:test';
import { setTimeout as sleep } from 'node:timers/promises';
import type { BatchOutcome } from '../../lab/bed/batch.js';
import type { JournalsCopy } from '../../lab/bed/journal-copies.js';
import type { PostgresBed } from '../../lab/bed/postgres-bed.js';
import { startPostgresBed } from '../../lab/bed/postgres-bed.js';
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

const SIZE = { samples: 8, repeats: 4 };
const BATCH = 'in-tables';
const REQUEST = puzzleBatch({ ...SIZE, max_in_flight: 32 });
const STORE = 'disturbed';
const WORKER = 'worker';

describe('a batch with journals in PostgreSQL', { skip: noPostgres }, () => {
  const copies: JournalsCopy[] = [];
  let server: PostgresServer;
  let tables: PostgresBed;
  let undisturbed: BatchOutcome;
  let outcome: BatchOutcome;

  before(async () => {
    server = await startPostgres({ fsync: 'on' });
    const workers = [WORKER, 'other'];
    tables = await startPostgresBed({ name: 'postgres', server, stores: [STORE], workers });
    await tables.bed.observed(disturb);
  });
  after(async () => {
    await tables.end();
    await server.stop();
  });

  async function disturb(): Promise<void> {
    const { bed } = tables;
    const copy = async (): Promise<void> =>
      void copies.push(await tables.copyTables(STORE, server.url));
    undisturbed = await playUndisturbed(bed, { batch_id: BATCH, request: REQUEST });
    await bed.simulator().change({ tokens_per_second: 120, ms_to_first_token: 50 });
    const worker = await bed.startWorker(STORE, WORKER);
    const untilTurn = await createTurnClock(bed);
    const share = (part: number): number => Math.ceil(part * countTurns(undisturbed));
    const batch = bed.batch(STORE, BATCH);
    await batch.start(REQUEST);

    await untilTurn(share(0.05));
    await worker.kill(copy);
    await untilTurn(share(0.15));
    await server.kill();
    await sleep(1000);
    await server.start();
    await untilTurn(share(0.25));
    tables.proxy(WORKER).cutAnswers(5);
    await untilTurn(share(0.35));
    // Frozen until another worker has taken over its rollouts, so it wakes as a zombie.
    const other = await bed.startWorker(STORE, 'other');
    worker.pause();
    await sleep(4000);
    worker.resume();
    await untilTurn(share(0.5));
    process.kill(server.pid(), 'SIGSTOP');
    await sleep(2000);
    process.kill(server.pid(), 'SIGCONT');
    await worker.kill(copy);
    outcome = await batch.outcome();
    await worker.stop();
    await other.stop();
  }

  test('completes, with every rollout once, through kills of worker and database, lost answers and a zombie', () => {
    assertComplete(undisturbed, SIZE);
    assertComplete(outcome, SIZE);
    assert.ok(tables.proxy(WORKER).cuts() >= 5);
  });

  test('generates no turn again that was journalled when its worker was killed', async () => {
    await assertNotGeneratedAgain(tables.bed, copies);
  });

  test('has the rows and the metrics of an undisturbed run with its journals in files', () => {
    assertSameOutcome(outcome, undisturbed);
  });

  test('has written the password into no log and no history', async () => {
    assert.match(await tables.historiesOf(STORE), /playTurns/);
  });
});
