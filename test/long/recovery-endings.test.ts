import assert from 'node:assert/strict';
import { access } from 'node:fs/promises';
import path from 'node:path';
import { after, before, describe, test } from 'node:test';
import { ApplicationFailure, WorkflowFailedError } from '@temporalio/client';
import type { BatchOutcome } from '../../lab/bed/batch.js';
import type { KeptWorker } from '../../lab/bed/kept-worker.js';
import type { RecoveryBatch, RecoveryBed } from '../../lab/bed/bed.js';
import { puzzleBatch, startRecoveryBed } from '../../lab/bed/bed.js';
import { assertComplete, assertEachOnce, assertSameRows } from '../harness/row-comparison.js';
import { eventually } from '../../lab/bed/waiting.js';

const SIZE = { samples: 6, repeats: 2 };
const ROLLOUTS = SIZE.samples * SIZE.repeats;
/** When the batch is ended, some rollouts are done, some run and some have not started. */
const REQUEST = puzzleBatch({ ...SIZE, max_in_flight: 6 });
const SLOW = { tokens_per_second: 60 };
const FAST = { tokens_per_second: 0 };

describe('a batch that is ended before its time', () => {
  let bed: RecoveryBed;
  let worker: KeptWorker;

  before(async () => {
    bed = await startRecoveryBed({ name: 'endings' });
    worker = await bed.startWorker('endings');
  });
  after(() => bed.end());

  /** Runs until some rollouts are done, then ends it. */
  async function endEarly(batch: RecoveryBatch, end: () => Promise<unknown>): Promise<void> {
    await bed.simulator().change(SLOW);
    await batch.start(REQUEST);
    await eventually('rollouts that are done', async () => (await batch.progress()).done >= 2);
    await end();
  }

  async function untilEngineIsIdle(): Promise<void> {
    await eventually(
      'an engine without requests',
      async () => (await bed.simulator().runningRequests()) === 0,
    );
  }

  /** Starts it again, which completes it; the rows that were valid stay as they were. */
  async function completes(batch: RecoveryBatch, before: BatchOutcome): Promise<void> {
    await bed.simulator().change(FAST);
    await batch.start(REQUEST);
    const outcome = await batch.outcome();
    assertComplete(outcome, SIZE);
    assertSameRows(before.rollouts, outcome.rollouts);
  }

  function assertEndedAs(
    type: 'Stopped' | 'Cancelled',
    { rollouts, failures }: BatchOutcome,
  ): void {
    assertEachOnce({ rollouts, failures }, SIZE);
    assert.ok(rollouts.length >= 2 && failures.length >= 2);
    for (const { failure, stop_reason } of failures) {
      assert.equal(failure?.type, type);
      assert.equal(stop_reason, type.toLowerCase());
    }
  }

  test('by cancellation is Cancelled with its files written and its engine idle, and completes when it is started again', () =>
    bed.observed(async () => {
      const batch = bed.batch('endings', 'cancelled');
      await endEarly(batch, () => batch.handle().cancel());
      const outcome = await batch.outcome();
      await untilEngineIsIdle();
      assert.equal((await batch.handle().describe()).status.name, 'CANCELLED');
      assertEndedAs('Cancelled', outcome);
      await completes(batch, outcome);
    }));

  test('by cancellation is Cancelled also when all of its rollouts run', () =>
    bed.observed(async () => {
      const batch = bed.batch('endings', 'cancelled-at-once');
      await bed.simulator().change({ tokens_per_second: 5 });
      await batch.start({ ...REQUEST, max_in_flight: ROLLOUTS });
      await eventually(
        'all rollouts to run',
        async () => (await batch.progress()).running === ROLLOUTS,
      );
      await batch.handle().cancel();
      const { rollouts, failures } = await batch.outcome();
      assert.equal((await batch.handle().describe()).status.name, 'CANCELLED');
      assertEachOnce({ rollouts, failures }, SIZE);
      assert.ok(failures.every(({ failure }) => failure?.type === 'Cancelled'));
    }));

  test('by stop has counts that add up and an idle engine, and completes when it is started again', () =>
    bed.observed(async () => {
      const batch = bed.batch('endings', 'stopped');
      await endEarly(batch, () => batch.handle().signal('stop'));
      const outcome = await batch.outcome();
      await untilEngineIsIdle();
      assertEndedAs('Stopped', outcome);
      assert.deepEqual(outcome.result?.counts, {
        requested: ROLLOUTS,
        completed: outcome.rollouts.length,
        failed: 0,
        timed_out: 0,
        stopped: outcome.failures.length,
        cancelled: 0,
      });
      await completes(batch, outcome);
    }));

  test('by terminate writes no files, leaves the engine idle, and completes when it is started again', () =>
    bed.observed(async () => {
      const batch = bed.batch('endings', 'terminated');
      await endEarly(batch, () => batch.handle().terminate());
      const outcome = await batch.outcome();
      assert.equal(outcome.failure?.type, 'TerminatedFailure');
      await assert.rejects(
        access(path.join(bed.storeRoot('endings'), 'terminated', 'metrics.json')),
      );
      await untilEngineIsIdle();
      await completes(batch, outcome);
    }));

  test('by rollout_timeout has TimedOut rows with what they had, and rollouts that failed as TimedOut', () =>
    bed.observed(async () => {
      // A turn takes 2 s, and a rollout of this size longer than its timeout. Sampled turns differ in length, so some
      // rollout is in the middle of one at the deadline; greedy ones would all end together.
      await bed.simulator().change({ tokens_per_second: 25 });
      const batch = bed.batch('endings', 'timed-out');
      await batch.start({
        ...REQUEST,
        generation: { max_new_tokens: 128 },
        rollout_timeout: '5s',
        max_in_flight: ROLLOUTS,
        min_valid: 0,
      });
      const { result, rollouts, failures } = await batch.outcome();
      assertEachOnce({ rollouts, failures }, SIZE);
      assert.deepEqual(result?.counts, {
        requested: ROLLOUTS,
        completed: rollouts.length,
        failed: 0,
        timed_out: failures.length,
        stopped: 0,
        cancelled: 0,
      });
      assert.ok(failures.length > 0);
      for (const { rollout_id, stop_reason, failure } of failures) {
        assert.equal(stop_reason, 'timeout');
        assert.equal(failure?.type, 'TimedOut');
        assert.equal(await failureType(rollout_id), 'TimedOut');
      }
      const partial = failures.filter((row) => row.message_log.at(-1)?.partial === true);
      assert.ok(partial.some((row) => row.message_log.at(-1)!.token_ids.length > 0));
      await untilEngineIsIdle();
    }));

  async function failureType(rolloutId: string): Promise<string | null | undefined> {
    const ended = bed.server().client.workflow.getHandle(rolloutId).result();
    const error: unknown = await ended.then(
      () => null,
      (thrown: unknown) => thrown,
    );
    assert.ok(error instanceof WorkflowFailedError && error.cause instanceof ApplicationFailure);
    return error.cause.type;
  }

  test('is ended by a worker that did not die of it', () => {
    assert.equal(worker.ownEnds(), 0);
  });
});
