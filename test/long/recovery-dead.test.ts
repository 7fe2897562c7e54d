import assert from 'node:assert/strict';
import { after, before, describe, test } from 'node:test';
import type { BatchOutcome } from '../harness/batch.js';
import type { RecoveryBed } from '../harness/recovery-bed.js';
import { puzzleBatch, startRecoveryBed } from '../harness/recovery-bed.js';
import { countTurns, createTurnClock, playUndisturbed } from '../harness/recovery-runs.js';
import { assertComplete, assertSameOutcome } from '../harness/row-comparison.js';

const SIZE = { samples: 6, repeats: 2 };
const BATCH = 'dead';
const REQUEST = puzzleBatch({ ...SIZE, max_in_flight: 12, rollout_timeout: '30m' });
/** Longer than the test may take: only other workers can notice a death. */
const WORKER = { heartbeat_timeout: '20m', turn_slice: '10m' };

/** Frozen for good: to other workers it looks like one whose machine is gone. Killed: it starts again, as `npm start` has it. */
for (const how of ['frozen', 'killed'] as const)
  describe(`rollouts of a worker that is ${how} in the midst of streams`, () => {
    let bed: RecoveryBed;
    let undisturbed: BatchOutcome;
    let outcome: BatchOutcome;

    before(async () => {
      bed = await startRecoveryBed({ name: how, worker: WORKER });
      await bed.observed(async () => {
        undisturbed = await playUndisturbed(bed, { batch_id: BATCH, request: REQUEST });
        await bed.simulator().change({ tokens_per_second: 30 });
        const first = await bed.startWorker('disturbed', 'first');
        const second = how === 'frozen' ? await bed.startWorker('disturbed', 'second') : first;
        const batch = bed.batch('disturbed', BATCH);
        const untilTurn = await createTurnClock(bed);
        await batch.start(REQUEST);
        await untilTurn(Math.ceil(0.2 * countTurns(undisturbed)));
        if (how === 'frozen') first.pause();
        else await first.kill();
        await bed.simulator().change({ tokens_per_second: 1000 });
        outcome = await batch.outcome();
        first.resume();
        await Promise.all([first, second].map((worker) => worker.stop()));
      });
    });
    after(() => bed.end());

    test('are played on by the other worker, long before their heartbeat timeout', () => {
      assertComplete(outcome, SIZE);
      assertSameOutcome(outcome, undisturbed);
      const taken_over = outcome.rollouts.filter(({ attempts }) => attempts > 1);
      assert.ok(taken_over.length > 0, 'no attempt followed another one');
    });
  });
