import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { setTimeout as sleep } from 'node:timers/promises';
import type { RolloutProgress } from '../../src/activities/contract.js';
import type { BatchOutcome } from '../../lab/bed/batch.js';
import type { RecoveryBatch } from '../../lab/bed/bed.js';
import { playUndisturbed } from '../harness/recovery-runs.js';
import { assertComplete } from '../harness/row-comparison.js';
import { eventually } from '../../lab/bed/waiting.js';
import type { InteropBed } from './batch-bed.js';
import {
  assertSameRollouts,
  BATCH,
  REQUEST,
  SIZE,
  startInteropBed,
  midGeneration,
  turnClock,
} from './batch-bed.js';
import { baseUrl, openControl, PAUSES, runningRequests, suite, WITHOUT_ENGINE } from './engine.js';

const PAUSE_MS = 4000;

suite('a greedy batch on a real engine', {
  skip: WITHOUT_ENGINE,
  timeout: 900_000,
  tests: () => {
    let interop: InteropBed;
    let undisturbed: BatchOutcome;

    before(async () => {
      interop = await startInteropBed({ name: 'interop', base_url: baseUrl() });
      await interop.bed.observed(async () => {
        undisturbed = await playUndisturbed(interop.bed, { batch_id: BATCH, request: REQUEST });
        assertComplete(undisturbed, SIZE);
      });
    });
    const bound = { within_ms: 120_000, signal: new AbortController().signal };
    const control = openControl();
    after(async () => {
      await control.resume(bound);
      await control.close();
      await interop.end();
    });

    test('whose worker is killed in its midst has the rows of the undisturbed one', () =>
      interop.bed.observed(async () => {
        const worker = await interop.bed.startWorker('killed');
        const batch = interop.bed.batch('killed', BATCH);
        const untilTurns = turnClock(interop);
        await batch.start(REQUEST);
        for (const turns of [SIZE.samples / 2, SIZE.samples * 1.5]) {
          await untilTurns(turns);
          await midGeneration(interop, { store: 'killed' });
          await worker.kill();
        }
        const outcome = await batch.outcome();
        await worker.stop();
        assertComplete(outcome, SIZE);
        assertSameRollouts(outcome.rollouts, undisturbed.rollouts);
        const { metrics } = outcome.result!;
        assert.ok(metrics['inherited_tokens']! > 0, 'no generation was hit');
      }));

    for (const mode of PAUSES) {
      test(`that is paused in its midst with mode=${mode} waits, and then has the rows of the undisturbed one, at the first attempt`, () =>
        interop.bed.observed(async () => {
          const worker = await interop.bed.startWorker(mode);
          const batch = interop.bed.batch(mode, BATCH);
          const untilTurns = turnClock(interop);
          await batch.start(REQUEST);
          await untilTurns(SIZE.samples / 2);
          await runs();
          await control.pause({ mode, cache: 'keep' }, bound);
          if (mode === 'abort') await isVisible();
          await parks(batch);
          await control.resume(bound);
          const outcome = await batch.outcome();
          await worker.stop();
          assertComplete(outcome, SIZE);
          assertSameRollouts(outcome.rollouts, undisturbed.rollouts);
          assert.deepEqual(
            outcome.rollouts.filter(({ attempts }) => attempts > 1),
            [],
          );
          const { metrics } = outcome.result!;
          assert.deepEqual(
            Object.keys(metrics).filter((name) => name.startsWith('faults/')),
            [],
          );
        }));
    }

    /** Waits until the engine has several generations to cut off. */
    async function runs(): Promise<void> {
      await eventually('generations that run', async () => (await runningRequests()) > 4);
    }

    /** Some rollout reports that it waits for the engine, and why. */
    async function isVisible(): Promise<void> {
      const waiting = await eventually('progress.waiting of a rollout', async () => {
        for (const { rollout_id } of undisturbed.rollouts) {
          const handle = interop.bed.server().client.workflow.getHandle(rollout_id);
          const { waiting } = await handle.query<RolloutProgress>('progress');
          if (waiting !== null) return waiting;
        }
        return null;
      });
      assert.equal(waiting.message, 'the engine is paused');
    }

    /** Nothing ends or fails during the pause. */
    async function parks(batch: RecoveryBatch): Promise<void> {
      const { steps } = interop.environment;
      await sleep(1000);
      const stood = steps.length;
      await sleep(PAUSE_MS);
      assert.equal(steps.length, stood, 'the engine was not paused');
      const { phase, failed, done } = await batch.progress();
      assert.deepEqual([phase, failed], ['running', 0]);
      assert.ok(done < SIZE.samples);
    }
  },
});
