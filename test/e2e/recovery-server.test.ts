import assert from 'node:assert/strict';
import { after, before, describe, test } from 'node:test';
import type { BatchOutcome } from '../../lab/bed/batch.js';
import type { JournalsCopy } from '../../lab/bed/journal-copies.js';
import { copyJournals } from '../../lab/bed/journal-copies.js';
import type { RecoveryBed } from '../../lab/bed/bed.js';
import { puzzleBatch, startRecoveryBed } from '../../lab/bed/bed.js';
import {
  assertNotGeneratedAgain,
  countTurns,
  createTurnClock,
  playUndisturbed,
} from '../harness/recovery-runs.js';
import { assertComplete, assertSameOutcome } from '../harness/row-comparison.js';

const SIZE = { samples: 8, repeats: 2 };
const BATCH = 'server-kills';
const REQUEST = puzzleBatch({ ...SIZE, max_in_flight: 8 });

describe('a batch whose Temporal server is killed', () => {
  let bed: RecoveryBed;
  let undisturbed: BatchOutcome;

  before(async () => {
    bed = await startRecoveryBed({ name: 'server-kills', own_server: true });
    await bed.observed(async () => {
      undisturbed = await playUndisturbed(bed, { batch_id: BATCH, request: REQUEST });
      assertComplete(undisturbed, SIZE);
      await bed.simulator().change({ tokens_per_second: 150, ms_to_first_token: 50 });
    });
  });
  after(() => bed.end());

  test('three times continues from its database: same rows, no finished turn generated again', () =>
    bed.observed(async () => {
      const worker = await bed.startWorker('restarted');
      const batch = bed.batch('restarted', BATCH);
      const untilTurn = await createTurnClock(bed);
      await batch.start(REQUEST);
      const copies: JournalsCopy[] = [];
      for (const share of [0.1, 0.3, 0.5]) {
        await untilTurn(Math.ceil(share * countTurns(undisturbed)));
        await bed.killServer();
        copies.push(await copyJournals(bed.storeRoot('restarted'), BATCH));
        await bed.startServer();
      }
      assert.equal((await batch.handle().describe()).status.name, 'RUNNING');
      const outcome = await batch.outcome();
      await worker.stop();
      assertComplete(outcome, SIZE);
      assertSameOutcome(outcome, undisturbed);
      await assertNotGeneratedAgain(bed, copies);
      console.log(`the worker ended ${worker.ownEnds()} times by itself`);
    }));

  test('and whose database is deleted continues when it is started again: same rows, no finished turn generated again', () =>
    bed.observed(async () => {
      const worker = await bed.startWorker('deleted');
      const batch = bed.batch('deleted', BATCH);
      const untilTurn = await createTurnClock(bed);
      await batch.start(REQUEST);
      await untilTurn(Math.ceil(0.4 * countTurns(undisturbed)));
      await bed.killServer();
      const copy = await copyJournals(bed.storeRoot('deleted'), BATCH);
      await bed.loseDatabase();
      await bed.startServer();
      await assert.rejects(batch.handle().describe(), { name: 'WorkflowNotFoundError' });
      await batch.start(REQUEST);
      const outcome = await batch.outcome();
      await worker.stop();
      assertComplete(outcome, SIZE);
      assertSameOutcome(outcome, undisturbed);
      await assertNotGeneratedAgain(bed, [copy]);
      console.log(`the worker ended ${worker.ownEnds()} times by itself`);
    }));
});
