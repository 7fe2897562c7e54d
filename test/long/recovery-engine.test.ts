import assert from 'node:assert/strict';
import { readFile } from 'node:fs/promises';
import path from 'node:path';
import { after, before, describe, test } from 'node:test';
import { ApplicationFailure, WorkflowFailedError } from '@temporalio/client';
import type { RolloutProgress } from '../../src/activities/contract.js';
import type { BatchOutcome } from '../../lab/bed/batch.js';
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
import { PROJECT_ROOT } from '../../lab/bed/server.js';
import { eventually, within } from '../../lab/bed/waiting.js';

const SIZE = { samples: 8, repeats: 2 };
const BATCH = 'engine-kills';
const REQUEST = puzzleBatch({ ...SIZE, max_in_flight: 8 });
const SAMPLES = path.join(PROJECT_ROOT, 'examples/sliding-puzzle/samples.jsonl');

function asFailure(error: unknown): ApplicationFailure {
  assert.ok(error instanceof WorkflowFailedError && error.cause instanceof ApplicationFailure);
  return error.cause;
}

describe('a batch whose engine is away', () => {
  let bed: RecoveryBed;
  let undisturbed: BatchOutcome;

  before(async () => {
    bed = await startRecoveryBed({
      name: 'engine-kills',
      simulator: { tokens_per_second: 300 },
    });
    await bed.observed(async () => {
      undisturbed = await playUndisturbed(bed, { batch_id: BATCH, request: REQUEST });
      assertComplete(undisturbed, SIZE);
    });
  });
  after(() => bed.end());

  test('from the start waits for it by name, and then completes', () =>
    bed.observed(async () => {
      await bed.simulator().kill();
      const worker = await bed.startWorker('absent');
      const batch = bed.batch('absent', BATCH);
      await batch.start(REQUEST);
      const waiting = await eventually(
        'progress.waiting of the batch',
        async () => (await batch.progress()).waiting,
      );
      assert.equal(waiting.service, `${bed.simulator().url}/v1`);
      assert.match(waiting.message, /ECONNREFUSED/);
      assert.equal((await batch.progress()).phase, 'planning');

      await bed.engines[0]!.start();
      const outcome = await batch.outcome();
      assert.equal((await batch.progress()).waiting, null);
      await worker.stop();
      assertComplete(outcome, SIZE);
      assertSameOutcome(outcome, undisturbed);
    }));

  test('longer than a rollout that was started by hand may take fails it as TimedOut', () =>
    bed.observed(async () => {
      await bed.simulator().kill();
      const worker = await bed.startWorker('by-hand');
      const [line = ''] = (await readFile(SAMPLES, 'utf8')).split('\n');
      const handle = await bed.server().client.workflow.start('rollout', {
        workflowId: 'by-hand',
        taskQueue: 'by-hand',
        args: [{ sample: JSON.parse(line) as unknown, rollout_timeout: '2s' }],
      });
      const failure = await within(
        'the end of a rollout by hand',
        handle.result().then(() => assert.fail('it did not fail'), asFailure),
      );
      assert.equal(failure.type, 'TimedOut');
      assert.match(failure.message, /rollout_timeout 2s passed/);
      await worker.stop();
      await bed.engines[0]!.start();
    }));

  test('after a kill -9 in its midst shows waiting and retries, and then completes: same rows, no finished turn generated again', () =>
    bed.observed(async () => {
      const worker = await bed.startWorker('killed');
      const batch = bed.batch('killed', BATCH);
      const untilTurn = await createTurnClock(bed);
      await batch.start(REQUEST);
      await untilTurn(Math.ceil(0.3 * countTurns(undisturbed)));
      await bed.simulator().kill();
      const waited = await findWaiting();
      await showsRetries(waited);
      const copy = await copyJournals(bed.storeRoot('killed'), BATCH);

      await bed.engines[0]!.start();
      const outcome = await batch.outcome();
      await worker.stop();
      // Signalled again when twice as many attempts have failed.
      const told = await waitingSignals(waited);
      assert.deepEqual([...new Set(told)], [`${bed.simulator().url}/v1`, null]);
      assert.ok(told.indexOf(null) === told.length - 1 && told.length <= 5, told.join());
      assertComplete(outcome, SIZE);
      assertSameOutcome(outcome, undisturbed);
      await assertNotGeneratedAgain(bed, [copy]);
    }));

  const handleOf = (workflowId: string) => bed.server().client.workflow.getHandle(workflowId);

  /** A rollout that reports that it waits. */
  function findWaiting(): Promise<string> {
    return eventually('progress.waiting of a rollout', async () => {
      for (const { rollout_id } of undisturbed.rollouts) {
        const progress = await progressOf(rollout_id);
        if (progress?.waiting?.service === `${bed.simulator().url}/v1`) return rollout_id;
      }
      return null;
    });
  }

  /** null for a rollout that has not started in this run. */
  async function progressOf(rolloutId: string): Promise<RolloutProgress | null> {
    const { status } = await handleOf(rolloutId).describe();
    if (status.name !== 'RUNNING') return null;
    return await handleOf(rolloutId).query<RolloutProgress>('progress');
  }

  async function showsRetries(rolloutId: string): Promise<void> {
    await eventually(`retries of ${rolloutId}`, async () => {
      const { raw } = await handleOf(rolloutId).describe();
      const [pending] = raw.pendingActivities ?? [];
      const type = pending?.lastFailure?.applicationFailureInfo?.type;
      return Number(pending?.attempt) > 2 && type === 'GenerationUnavailable';
    });
  }

  /** The signals of its attempts: the unavailable service, then null. */
  async function waitingSignals(rolloutId: string): Promise<(string | null)[]> {
    const { events } = await handleOf(rolloutId).fetchHistory();
    return (events ?? [])
      .map((event) => event.workflowExecutionSignaledEventAttributes)
      .filter((signal) => signal?.signalName === 'waiting')
      .map((signal) => {
        const { data } = signal!.input!.payloads![0]!;
        const said = JSON.parse(Buffer.from(data!).toString()) as { service: string } | null;
        return said?.service ?? null;
      });
  }
});
