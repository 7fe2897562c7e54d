import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import type { BatchOutcome } from '../../lab/bed/batch.js';
import { playUndisturbed } from '../harness/recovery-runs.js';
import { assertComplete } from '../harness/row-comparison.js';
import { within } from '../../lab/bed/waiting.js';
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
import type { KeptEngine } from './engine-process.js';
import { keepEngine } from './engine-process.js';
import { suite, WITHOUT_START } from './engine.js';

const ENDED_WITHIN_MS = 300_000;

suite('a greedy batch whose real engine is killed', {
  skip: WITHOUT_START,
  timeout: 1_800_000,
  tests: () => {
    let engine: KeptEngine;
    let interop: InteropBed;
    let undisturbed: BatchOutcome;

    before(async () => {
      engine = await keepEngine('interop-engine');
      interop = await startInteropBed({
        name: 'interop-kill',
        base_url: engine.base_url,
      });
      await interop.bed.observed(async () => {
        undisturbed = await playUndisturbed(interop.bed, { batch_id: BATCH, request: REQUEST });
        assertComplete(undisturbed, SIZE);
      });
    });
    after(async () => {
      await interop.end();
      await engine.end();
    });

    test('in its midst, and started again minutes later, has the rows of the undisturbed one', () =>
      interop.bed.observed(async () => {
        const worker = await interop.bed.startWorker('killed');
        const batch = interop.bed.batch('killed', BATCH);
        const untilTurns = turnClock(interop);
        await batch.start(REQUEST);
        await untilTurns(SIZE.samples / 2);
        await midGeneration(interop, { store: 'killed' });
        await engine.kill();
        await engine.start();
        const ended = { what: 'the batch', timeout_ms: ENDED_WITHIN_MS };
        await within(ended, batch.handle().result());
        const outcome = await batch.outcome();
        await worker.stop();
        assertComplete(outcome, SIZE);
        assertSameRollouts(outcome.rollouts, undisturbed.rollouts);
        const { metrics } = outcome.result!;
        assert.ok(metrics['inherited_tokens']! > 0, 'no generation was hit');
      }));
  },
});
