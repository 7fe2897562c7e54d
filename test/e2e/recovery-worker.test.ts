import assert from 'node:assert/strict';
import { after, before, describe, test } from 'node:test';
import { setTimeout as sleep } from 'node:timers/promises';
import { createRandom } from '../../simulator/random.js';
import type { BatchOutcome } from '../../lab/bed/batch.js';
import type { JournalsCopy } from '../../lab/bed/journal-copies.js';
import { copyJournals } from '../../lab/bed/journal-copies.js';
import type { KeptWorker } from '../../lab/bed/kept-worker.js';
import type { RecoveryBed } from '../../lab/bed/bed.js';
import { puzzleBatch, startRecoveryBed } from '../../lab/bed/bed.js';
import {
  assertNotGeneratedAgain,
  countTurns,
  createTurnClock,
  playUndisturbed,
} from '../harness/recovery-runs.js';
import { assertComplete, assertSameOutcome } from '../harness/row-comparison.js';
import { eventually } from '../../lab/bed/waiting.js';

const SIZE = { samples: 16, repeats: 4 };
const KILLS = 10;
const BATCH = 'ten-kills';
const REQUEST = puzzleBatch({ ...SIZE, max_in_flight: 64 });

/** Of the moments. */
const SEED = Number(process.env['RECOVERY_SEED'] ?? 1);

describe(`a batch whose worker is killed ten times, at moments of seed ${SEED}`, () => {
  const copies: JournalsCopy[] = [];
  let bed: RecoveryBed;
  let undisturbed: BatchOutcome;
  let outcome: BatchOutcome;

  before(async () => {
    bed = await startRecoveryBed({ name: 'worker-kills' });
    await bed.observed(async () => {
      undisturbed = await playUndisturbed(bed, { batch_id: BATCH, request: REQUEST });
      await bed.simulator().change({ tokens_per_second: 120, ms_to_first_token: 50 });
      const worker = await bed.startWorker('disturbed');
      const batch = bed.batch('disturbed', BATCH);
      const untilTurn = await createTurnClock(bed);
      await batch.start(REQUEST);
      await killAtItsMoments(worker, untilTurn);
      // The server answers no query while the last kills have left a workflow task to try again.
      const phase = await eventually(
        'progress after the kills',
        async () => (await batch.progress().catch(() => null))?.phase,
      );
      assert.equal(phase, 'running');
      outcome = await batch.outcome();
      await worker.stop();
    });
  });
  after(() => bed.end());

  /** A moment is a share of the batch's turns, and a random time after. */
  async function killAtItsMoments(
    worker: KeptWorker,
    untilTurn: (turns: number) => Promise<void>,
  ): Promise<void> {
    const random = createRandom(SEED);
    const turns = countTurns(undisturbed);
    const moments = Array.from({ length: KILLS }, () => Math.ceil(random() * 0.6 * turns));
    for (const moment of moments.toSorted((a, b) => a - b)) {
      await untilTurn(moment);
      await sleep(random() * 500);
      await worker.kill(async () => {
        copies.push(await copyJournals(bed.storeRoot('disturbed'), BATCH));
      });
      console.log(`killed after turn ${moment} of ${turns}`);
    }
  }

  test('completes, with every rollout once and in input order', () => {
    assertComplete(undisturbed, SIZE);
    assertComplete(outcome, SIZE);
  });

  test('generates no turn again that was journalled when the worker was killed', async () => {
    assert.equal(copies.length, KILLS);
    await assertNotGeneratedAgain(bed, copies);
  });

  test('was hit in the middle of generations', () => {
    const { metrics } = outcome.result!;
    assert.ok(metrics['inherited_tokens']! > 0);
  });

  test('has the rows and the metrics of an undisturbed run', () => {
    assertSameOutcome(outcome, undisturbed);
  });
});
