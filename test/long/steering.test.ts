/** Updates of a batch and of a rollout while they run. */
import assert from 'node:assert/strict';
import { after, before, describe, test } from 'node:test';
import type { WorkflowHandle } from '@temporalio/client';
import { WorkflowUpdateFailedError } from '@temporalio/client';
import type { BatchProgress, RolloutProgress } from '../../src/activities/contract.js';
import type { StartedBatch } from '../../lab/bed/batch.js';
import { readJournal, startBatch, startSingleRollout } from '../../lab/bed/batch.js';
import { puzzleRequest } from '../../lab/bed/puzzle-request.js';
import type { Testbed } from '../harness/testbed.js';
import { startTestbed } from '../harness/testbed.js';
import { eventually } from '../../lab/bed/waiting.js';

const QUEUE = 'steering';
const REQUESTED = {
  max_rollout_turns: 100,
  max_new_tokens: 64,
  max_seq_len: 8192,
  rollout_timeout: '1h',
};

describe('while it runs', () => {
  let bed: Testbed;

  before(async () => {
    bed = await startTestbed('steering');
    const settings = { skill: 0, seed: 1 };
    await bed.startWorker({
      task_queue: QUEUE,
      generation: await bed.simulate({
        // A turn takes a quarter of a second.
        default: { ...settings, thinking_tokens: 8, tokens_per_second: 60 },
      }),
      worker: { turn_slice: '0s', heartbeat_timeout: '2s' },
    });
  });
  after(() => bed.end());

  const start = (
    id: string,
    size: { samples: number; num_repeats: number; max_in_flight: number },
  ): Promise<StartedBatch> =>
    startBatch(bed.batch(id, QUEUE), {
      ...puzzleRequest(size, { max_rollout_turns: 100 }),
      max_in_flight: size.max_in_flight,
    });
  const single = (id: string): Promise<StartedBatch> => {
    const { samples, generation, max_seq_len } = puzzleRequest({ samples: 1, num_repeats: 1 });
    const [sample] = samples as unknown[];
    return startSingleRollout(bed.batch(id, QUEUE), { sample, generation, max_seq_len });
  };
  const update = (handle: WorkflowHandle, { name, input }: { name: string; input: unknown }) =>
    handle.executeUpdate(name, { args: [input] });
  const setLimits = (handle: WorkflowHandle, input: unknown) =>
    update(handle, { name: 'set_limits', input });
  const setMaxInFlight = (handle: WorkflowHandle, max_in_flight: number) =>
    update(handle, { name: 'set_max_in_flight', input: { max_in_flight } });

  const untilRunning = (handle: WorkflowHandle, running: number) =>
    eventually(`${running} rollouts that run`, async () => {
      // It may not have started yet.
      const progress = await handle.query<BatchProgress>('progress').catch(() => null);
      if (progress === null) return false;
      assert.ok(progress.running <= running, `${progress.running} run`);
      return progress.running === running;
    });
  const untilTurn = (handle: WorkflowHandle, turn: number) =>
    eventually(`turn ${turn}`, async () => {
      const progress = await handle.query<RolloutProgress>('progress').catch(() => null);
      return progress !== null && progress.turn >= turn;
    });
  const rolloutOf = (id: string): WorkflowHandle =>
    bed.server.client.workflow.getHandle(`${id}/0-0`);

  test('a batch takes set_max_in_flight, and set_limits for rollouts that run and that start later', async () => {
    const id = 'batch';
    const { handle, outcome } = await start(id, { samples: 3, num_repeats: 2, max_in_flight: 1 });
    // Also during planning.
    assert.deepEqual(await setMaxInFlight(handle, 3), { max_in_flight: 3 });
    await untilRunning(handle, 3);
    await untilTurn(rolloutOf(id), 3);
    assert.deepEqual(await setLimits(handle, { max_rollout_turns: 2, max_new_tokens: 32 }), {
      ...REQUESTED,
      max_rollout_turns: 2,
      max_new_tokens: 32,
    });
    const { result, failure, rollouts } = await outcome();
    assert.equal(failure, null);
    assert.equal(result?.counts.completed, 6);
    assert.deepEqual([...new Set(rollouts.map(({ stop_reason }) => stop_reason))], ['max_turns']);
    const played = rollouts.map(({ turn_count }) => turn_count);
    assert.ok(played[0]! >= 3 && played[0]! < 20, `${played[0]} turns of the first`);
    assert.deepEqual(played.slice(3), [2, 2, 2]);
    const later = await readJournal(bed.store_root, { batch_id: id, row: 2, repeat: 1 });
    const limits = later.flatMap((line) => (line.kind === 'claim' ? [line.limits] : []));
    assert.deepEqual(limits[1], { max_rollout_turns: 2, max_new_tokens: 32 });
  });

  test('a batch that runs as slices shares out what is set', async () => {
    const size = { samples: 151, num_repeats: 2, max_in_flight: 2 };
    const { handle, outcome } = await start('slices', size);
    assert.deepEqual(await setMaxInFlight(handle, 9), { max_in_flight: 9 });
    const slice = bed.server.client.workflow.getHandle('slices/rows-0-63');
    await untilRunning(slice, 3);
    await untilTurn(rolloutOf('slices'), 1);
    await setLimits(handle, { max_rollout_turns: 1 });
    await eventually('the first rollout to end', async () => {
      const { state } = await rolloutOf('slices').query<RolloutProgress>('progress');
      return state === 'done';
    });
    await handle.signal('stop');
    const { result } = await outcome();
    const { requested, completed, stopped } = result!.counts;
    assert.deepEqual([requested, completed + stopped], [302, 302]);
    assert.ok(completed >= 1);
  });

  test('max_seq_len below what a rollout has ends it as truncated, with its row', async () => {
    const { handle, outcome } = await single('shorter');
    await untilTurn(handle, 2);
    assert.deepEqual(await setLimits(handle, { max_seq_len: 10 }), {
      ...REQUESTED,
      max_seq_len: 10,
    });
    const { failure, rollouts } = await outcome();
    assert.equal(failure, null);
    assert.deepEqual(
      rollouts.map(({ stop_reason, truncated }) => [stop_reason, truncated]),
      [['truncated', true]],
    );
  });

  test('rollout_timeout moves the deadline, which counts from the start', async () => {
    const { handle, outcome } = await single('later');
    await untilTurn(handle, 2);
    await setLimits(handle, { rollout_timeout: '10m' });
    await untilTurn(handle, 4);
    // That batch has ended.
    assert.deepEqual(await setLimits(handle, { rollout_timeout: '500ms' }), {
      ...REQUESTED,
      rollout_timeout: '500ms',
    });
    const { failure, failures } = await outcome();
    assert.equal(failure?.type, 'TimedOut');
    assert.equal(failures[0]?.stop_reason, 'timeout');
    assert.ok(failures[0].turn_count >= 4);
  });

  test('what is wrong with an update is refused by field, and nothing changes', async () => {
    const { handle, outcome } = await single('refused');
    const rejected = async (promise: Promise<unknown>): Promise<string> => {
      const error: unknown = await promise.then(
        () => assert.fail('it was taken'),
        (thrown: unknown) => thrown,
      );
      assert.ok(error instanceof WorkflowUpdateFailedError, String(error));
      return error.cause?.message ?? '';
    };
    assert.match(await rejected(setLimits(handle, {})), /at least one/);
    assert.match(
      await rejected(setLimits(handle, { max_turns: 3 })),
      /^max_turns: unknown field; expected an object with max_rollout_turns/,
    );
    assert.match(
      await rejected(setLimits(handle, { max_seq_len: 0 })),
      /^max_seq_len: expected an integer of at least 1, got 0$/,
    );
    const batch = await start('refused-batch', { samples: 1, num_repeats: 1, max_in_flight: 1 });
    assert.match(await rejected(setMaxInFlight(batch.handle, 0)), /^max_in_flight: .*, got 0$/);
    await untilTurn(handle, 1);
    const { events } = await handle.fetchHistory();
    assert.ok(
      !(events ?? []).some((event) => event.workflowExecutionUpdateAcceptedEventAttributes),
    );
    await handle.signal('stop');
    await batch.handle.signal('stop');
    await outcome();
    await batch.outcome();
  });
});
