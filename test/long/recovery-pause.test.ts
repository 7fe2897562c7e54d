import assert from 'node:assert/strict';
import { after, before, describe, test } from 'node:test';
import { setTimeout as sleep } from 'node:timers/promises';
import type { RolloutProgress } from '../../src/activities/contract.js';
import type { BatchOutcome } from '../../lab/bed/batch.js';
import type { RecoveryBed } from '../../lab/bed/bed.js';
import { puzzleBatch, startRecoveryBed } from '../../lab/bed/bed.js';
import { countTurns, createTurnClock, playUndisturbed } from '../harness/recovery-runs.js';
import { assertComplete, assertSameOutcome } from '../harness/row-comparison.js';
import { countCompletions } from '../../lab/bed/simulator.js';
import { eventually } from '../../lab/bed/waiting.js';

const SIZE = { samples: 8, repeats: 2 };
const BATCH = 'paused';
const REQUEST = puzzleBatch({ ...SIZE, max_in_flight: 16 });

describe('a batch whose engine is paused in its midst', () => {
  let bed: RecoveryBed;
  let undisturbed: BatchOutcome;

  before(async () => {
    bed = await startRecoveryBed({
      name: 'paused',
      // None may be missed: an attempt more would be found.
      worker: { heartbeat_timeout: '8s' },
      simulator: { tokens_per_second: 100, dev_mode: true },
    });
    await bed.observed(async () => {
      undisturbed = await playUndisturbed(bed, { batch_id: BATCH, request: REQUEST });
      assertComplete(undisturbed, SIZE);
    });
  });
  after(() => bed.end());

  const control = async (path: string): Promise<void> => {
    const { status } = await fetch(`${bed.simulator().url}${path}`, { method: 'POST' });
    assert.equal(status, 200);
  };

  for (const mode of ['abort', 'keep']) {
    test(`with mode=${mode} waits without an end of its attempts: same rows, same attempts, no fault`, () =>
      bed.observed(async () => {
        const worker = await bed.startWorker(mode);
        const batch = bed.batch(mode, BATCH);
        const untilTurn = await createTurnClock(bed);
        await batch.start(REQUEST);
        await untilTurn(Math.ceil(0.3 * countTurns(undisturbed)));
        await eventually(
          'generations that run',
          async () => (await bed.simulator().runningRequests()) > 2,
        );
        await control(`/pause?mode=${mode}`);
        if (mode === 'abort') await showsWaiting();
        await standsStill();
        await control('/resume');
        const outcome = await batch.outcome();
        await worker.stop();

        assertComplete(outcome, SIZE);
        assertSameOutcome(outcome, undisturbed);
        const attempts = (of: BatchOutcome): number[] => of.rollouts.map((row) => row.attempts);
        assert.deepEqual(attempts(outcome), attempts(undisturbed));
        const { metrics } = outcome.result!;
        assert.deepEqual(
          Object.keys(metrics).filter((name) => name.startsWith('faults/')),
          [],
        );
      }));
  }

  /** Longer than a heartbeat timeout: an attempt without heartbeats would be given up. */
  async function standsStill(): Promise<void> {
    const before = await countCompletions(bed.directory);
    await sleep(9000);
    assert.equal(await countCompletions(bed.directory), before);
  }

  async function showsWaiting(): Promise<void> {
    const waiting = await eventually('progress.waiting of a rollout', async () => {
      for (const { rollout_id } of undisturbed.rollouts) {
        const handle = bed.server().client.workflow.getHandle(rollout_id);
        const { status } = await handle.describe();
        if (status.name !== 'RUNNING') continue;
        const progress = await handle.query<RolloutProgress>('progress');
        if (progress.waiting !== null) return progress.waiting;
      }
      return null;
    });
    const service = `${bed.simulator().url}/v1`;
    assert.deepEqual(waiting, { service, message: 'the engine is paused' });
  }
});
