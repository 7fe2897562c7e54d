/** Journals in PostgreSQL: what dies between a worker and its rows costs no turn, and rows are those of files. */
import assert from 'node:assert/strict';
import { after, before, describe, test } from 'node:test';
import { setTimeout as sleep } from 'node:timers/promises';
import pg from 'pg';
import { migratePostgres } from '../../src/trajectories/postgres/open.js';
import { isJournalCommit } from '../fakes/stores.js';
import type { BatchOutcome } from '../harness/batch.js';
import type { CutProxy } from '../harness/cut-proxy.js';
import { startCutProxy } from '../harness/cut-proxy.js';
import type { JournalsCopy } from '../harness/journal-copies.js';
import { copyOf } from '../harness/journal-copies.js';
import type { PostgresServer } from '../harness/postgres-server.js';
import { noPostgres, startPostgres } from '../harness/postgres-server.js';
import type { RecoveryBed } from '../harness/recovery-bed.js';
import { puzzleBatch, startRecoveryBed } from '../harness/recovery-bed.js';
import { assertNotGeneratedAgain, countTurns, createTurnClock, playUndisturbed } from '../harness/recovery-runs.js'; // prettier-ignore
import { assertComplete, assertSameOutcome } from '../harness/row-comparison.js';

const SIZE = { samples: 8, repeats: 4 };
const BATCH = 'in-tables';
const REQUEST = puzzleBatch({ ...SIZE, max_in_flight: 32 });
const SCHEMA = 'recovery';

describe('a batch with journals in PostgreSQL', { skip: noPostgres, timeout: 500_000 }, () => {
  const copies: JournalsCopy[] = [];
  let server: PostgresServer;
  let proxy: CutProxy;
  let bed: RecoveryBed;
  let undisturbed: BatchOutcome;
  let outcome: BatchOutcome;

  before(async () => {
    server = await startPostgres({ fsync: 'on' });
    proxy = await startCutProxy({ port: server.port, isCommit: isJournalCommit });
    const url = server.url.replace(`:${server.port}/`, `:${proxy.port}/`);
    bed = await startRecoveryBed({
      name: 'postgres',
      env: { STORE_URL: url },
      store: (store, root) =>
        store === 'undisturbed'
          ? { kind: 'file', root }
          : { kind: 'postgres', url_env: 'STORE_URL', schema: SCHEMA, outputs: { root } },
    });
    const outputs = { root: bed.storeRoot('disturbed') };
    await migratePostgres({ url: server.url, schema: SCHEMA, max_connections: 2, outputs });
    await bed.observed(disturb);
  });
  after(async () => {
    await bed.end();
    await proxy.end();
    await server.stop();
  });

  async function disturb(): Promise<void> {
    undisturbed = await playUndisturbed(bed, { batch_id: BATCH, request: REQUEST });
    await bed.simulator().change({ tokens_per_second: 120, ms_to_first_token: 50 });
    const worker = await bed.startWorker('disturbed');
    const untilTurn = await createTurnClock(bed);
    const share = (part: number): number => Math.ceil(part * countTurns(undisturbed));
    const batch = bed.batch('disturbed', BATCH);
    await batch.start(REQUEST);

    await untilTurn(share(0.05));
    await worker.kill(async () => void copies.push(await copyTables()));
    await untilTurn(share(0.15));
    await server.kill();
    await sleep(1000);
    await server.start();
    await untilTurn(share(0.25));
    proxy.cutAnswers(5);
    await untilTurn(share(0.35));
    // Frozen until another has taken its rollouts over: it wakes as a zombie.
    const other = await bed.startWorker('disturbed', 'other');
    worker.pause();
    await sleep(4000);
    worker.resume();
    await untilTurn(share(0.5));
    process.kill(server.pid(), 'SIGSTOP');
    await sleep(2000);
    process.kill(server.pid(), 'SIGCONT');
    await worker.kill(async () => void copies.push(await copyTables()));
    outcome = await batch.outcome();
    await worker.stop();
    await other.stop();
  }

  async function copyTables(): Promise<JournalsCopy> {
    const client = new pg.Client({ connectionString: server.url });
    await client.connect();
    try {
      const { rows } = await client.query<{ rollout: string; text: string }>(
        `select rollout, string_agg(lines, '' order by n) as text from ${SCHEMA}.journal group by rollout`,
      );
      return copyOf(rows.map(({ rollout, text }) => [rollout, text]));
    } finally {
      await client.end();
    }
  }

  test('completes, with every rollout once, through kills of worker and database, lost answers and a zombie', () => {
    assertComplete(undisturbed, SIZE);
    assertComplete(outcome, SIZE);
    assert.ok(proxy.cuts() >= 5);
  });

  test('generates no turn again that stood when its worker was killed', async () => {
    await assertNotGeneratedAgain(bed, copies);
  });

  test('has the rows and the metrics of an undisturbed run with its journals in files', () => {
    assertSameOutcome(outcome, undisturbed);
  });
});
