import assert from 'node:assert/strict';
import { after, before, describe, test } from 'node:test';
import type { BatchOutcome } from '../../lab/bed/batch.js';
import { readJournal } from '../../lab/bed/batch.js';
import type { RecoveryBed } from '../../lab/bed/bed.js';
import { puzzleBatch, startRecoveryBed } from '../../lab/bed/bed.js';
import { countTurns, createTurnClock, playUndisturbed } from '../harness/recovery-runs.js';
import { assertComplete, assertSameOutcome } from '../harness/row-comparison.js';

const SIZE = { samples: 8, repeats: 2 };
const BATCH = 'shutdowns';
const REQUEST = puzzleBatch({ ...SIZE, max_in_flight: 16 });
/** What a worker takes that has nothing to wait for, on a machine with ten times its load. */
const ENDS_WITHIN_S = 30;

describe('a batch whose worker is signalled to end during streams, twice', () => {
  const ended_after_s: number[] = [];
  let bed: RecoveryBed;
  let undisturbed: BatchOutcome;
  let outcome: BatchOutcome;

  before(async () => {
    bed = await startRecoveryBed({ name: 'shutdowns' });
    await bed.observed(async () => {
      undisturbed = await playUndisturbed(bed, { batch_id: BATCH, request: REQUEST });
      // A turn takes seconds: it is cut, or nothing would be inherited.
      await bed.simulator().change({ tokens_per_second: 15 });
      const worker = await bed.startWorker('disturbed');
      const batch = bed.batch('disturbed', BATCH);
      const untilTurn = await createTurnClock(bed);
      await batch.start(REQUEST);
      for (const share of [0.2, 0.5]) {
        await untilTurn(Math.ceil(share * countTurns(undisturbed)));
        ended_after_s.push(await worker.replace());
      }
      await bed.simulator().change({ tokens_per_second: 1000 });
      outcome = await batch.outcome();
      await worker.stop();
    });
  });
  after(() => bed.end());

  test('is left without a wait for the ends of its turns', () => {
    assert.equal(ended_after_s.length, 2);
    for (const seconds of ended_after_s) assert.ok(seconds < ENDS_WITHIN_S, `after ${seconds} s`);
  });

  test('completes with the rows of an undisturbed run', () => {
    assertComplete(outcome, SIZE);
    assertSameOutcome(outcome, undisturbed);
    assert.ok(outcome.result!.metrics['inherited_tokens']! > 0);
  });

  test('samples no token again: every request continues where the journal ends', async () => {
    for (const { row, repeat } of outcome.rollouts) {
      const ref = { batch_id: BATCH, row, repeat };
      let reached = { turn: 0, count: 0 };
      for (const line of await readJournal(bed.storeRoot('disturbed'), ref)) {
        if (line.kind !== 'chunk') continue;
        const { turn, offset, token_ids } = line;
        if (turn !== reached.turn) reached = { turn, count: 0 };
        if (token_ids.length > 0) assert.equal(offset, reached.count, `${row}-${repeat}/${turn}`);
        // A chunk without tokens drops those that came after a stop string.
        reached.count = offset + token_ids.length;
      }
    }
  });
});
