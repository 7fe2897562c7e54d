/** Whatever a client sends fails at once, or is refused or ignored, and leaves nothing half-done. */
import assert from 'node:assert/strict';
import { readdir } from 'node:fs/promises';
import { after, before, describe, test } from 'node:test';
import type { Payload } from '@temporalio/client';
import { ApplicationFailure, WorkflowFailedError } from '@temporalio/client';
import type { BatchProgress, RolloutProgress } from '../../src/activities/contract.js';
import type { StreamProgress } from '../../src/activities/contract/stream.js';
import { generateSamples } from '../../src/environments/sliding-puzzle/generate-samples.js';
import { BY_HAND, FEW_UNREADABLE, payload } from '../fakes/hostile-inputs.js';
import { startBatch } from '../../lab/bed/batch.js';
import { puzzleRequest } from '../../lab/bed/puzzle-request.js';
import type { Testbed } from '../harness/testbed.js';
import { startTestbed } from '../harness/testbed.js';
import {
  failedTasksOf,
  sending,
  signalUnreadably,
  updateUnreadably,
} from '../../lab/chaos/day/unreadable.js';
import { eventually, within } from '../../lab/bed/waiting.js';

const QUEUE = 'bad-input';
const samples = generateSamples({ count: 1, seed: 1, size: 2, shuffle_moves: 3, max_moves: 5 });

describe('what a client sends', () => {
  let bed: Testbed;
  /** Where the slow engine is told of faults. */
  let faults: string;

  before(async () => {
    bed = await startTestbed('bad-input');
    const settings = { thinking_tokens: 8, skill: 0, seed: 1 };
    const generation = await bed.simulate({
      default: settings,
      slow: { ...settings, tokens_per_second: 40 },
    });
    faults = generation['slow']?.base_urls[0]?.replace(/v1$/, 'simulator/faults') ?? '';
    await bed.startWorker({
      task_queue: QUEUE,
      generation,
      worker: { turn_slice: '0s', heartbeat_timeout: '2s' },
    });
  });
  after(() => bed.end());

  /** No turn of the slow engine begins until `goOn`; resolves when so many wait to begin. */
  const hold = async (rollouts: number): Promise<void> => {
    const body = JSON.stringify({ fault: 'hold', times: null });
    assert.ok((await fetch(faults, { method: 'POST', body })).ok);
    await eventually({ what: 'turns that wait', timeout_ms: 90_000 }, async () => {
      const seen = (await (await fetch(faults)).json()) as { faults: { hits: number }[] };
      return seen.faults.reduce((sum, { hits }) => sum + hits, 0) >= rollouts;
    });
  };
  const goOn = async (): Promise<void> => {
    assert.ok((await fetch(faults, { method: 'DELETE' })).ok);
  };

  let serial = 0;
  /** The fault of a workflow that is started with it; it has ten seconds. */
  const faultOf = async (type: string, { sent, id }: { sent: Payload; id?: string }) => {
    const workflowId = id ?? `unread-${++serial}`;
    const { workflow } = sending(bed.server.client, sent);
    const handle = await workflow.start(type, { workflowId, taskQueue: QUEUE, args: [null] });
    const ended = handle.result().then(
      () => null,
      (error: unknown) => error,
    );
    const late = new Promise((resolve) => setTimeout(resolve, 10_000, 'it does not end').unref());
    const error = await Promise.race([ended, late]);
    assert.ok(error instanceof WorkflowFailedError, String(error));
    assert.ok(error.cause instanceof ApplicationFailure, String(error.cause));
    return error.cause;
  };

  for (const { what, sent, says } of FEW_UNREADABLE) {
    test(`is refused as the input of a workflow of any type where nobody can read it: ${what}`, async () => {
      for (const type of ['rolloutBatch', 'rolloutStream', 'rollout']) {
        const { type: fault, message } = await faultOf(type, { sent });
        assert.equal(fault, 'InvalidBatchRequest', message);
        assert.match(message, says);
      }
      for (const type of ['rolloutSlice', 'rolloutGroup', 'policy'])
        assert.equal((await faultOf(type, { sent })).type, 'InvalidBatchRequest');
    });
  }

  test('is refused where the type of its workflow is none, with those that are', async () => {
    const { type, message } = await faultOf('rolloutbatch', { sent: payload('json/plain', '{}') });
    assert.equal(type, 'InvalidBatchRequest');
    assert.match(message, /^workflow type: expected rolloutBatch, .*, got "rolloutbatch"$/);
  });

  // One of each workflow that only workflows start.
  for (const [what, type, args] of [BY_HAND[2]!, BY_HAND[7]!, BY_HAND[8]!])
    test(`is refused, and the worker continues: ${what}`, async () => {
      const workflowId = `by-hand-${++serial}`;
      const started = { workflowId, taskQueue: QUEUE, args };
      const handle = await bed.server.client.workflow.start(type, started);
      const wait = { what: `the end of ${what}`, timeout_ms: 30_000 };
      await assert.rejects(within(wait, handle.result()), (error: unknown) => {
        assert.ok(error instanceof WorkflowFailedError);
        assert.match(String(error.cause?.message), /expected/);
        return true;
      });
    });

  for (const [what, request, says] of [
    ['an unknown field', { samples, repeats: 2 }, /repeats: unknown field/],
    ['no object', 'samples.jsonl', /expected object, got "samples\.jsonl"/],
    [
      'a path out of inputs_dir',
      { samples: { path: '../outside.jsonl' } },
      /samples\.path: expected a file below inputs_dir, got "\.\.\/outside\.jsonl"/,
    ],
    [
      'a model that the engine does not serve',
      { samples, generation: { model: 'llama' } },
      /generation\.model: expected a model that .* serves \("simulator"\), got "llama"/,
    ],
  ] as const)
    test(`is InvalidBatchRequest as a request with ${what}, and nothing is written`, async () => {
      const before = await readdir(bed.store_root).catch(() => []);
      const handle = bed.batch(`bad-${++serial}`, QUEUE);
      const batch = await startBatch(handle, request as unknown as Record<string, unknown>);
      const { result, failure } = await batch.outcome();
      assert.equal(result, null);
      assert.equal(failure?.type, 'InvalidBatchRequest');
      assert.match(failure.message, says);
      assert.deepEqual(await readdir(bed.store_root).catch(() => []), before);
    });

  const signalAll = async (id: string): Promise<void> => {
    for (const { sent } of FEW_UNREADABLE) await signalUnreadably(bed.server.client, { id, sent });
  };
  const updateAll = async (id: string, updates: readonly string[]): Promise<void> => {
    for (const kind of FEW_UNREADABLE)
      await updateUnreadably(bed.server.client, { id, updates, ...kind });
  };
  const failed = (id: string): Promise<number> => failedTasksOf(bed.server.client, id);

  test('is ignored as a signal and refused as an update while batch and rollout go on, and stop is obeyed', async () => {
    const id = 'batch';
    const request = puzzleRequest({ samples: 2, num_repeats: 1 }, { max_rollout_turns: 100 });
    const generation = { ...(request['generation'] as object), service: 'slow' };
    const { handle, outcome } = await startBatch(bed.batch(id, QUEUE), { ...request, generation });
    const rollout = bed.server.client.workflow.getHandle(`${id}/0-0`);
    const isAt = (turn: number) =>
      eventually({ what: `turn ${turn}`, timeout_ms: 90_000 }, async () => {
        const progress = await rollout.query<RolloutProgress>('progress').catch(() => null);
        return progress !== null && progress.turn >= turn;
      });
    await isAt(1);
    await hold(2);
    for (const one of [id, `${id}/0-0`]) await signalAll(one);
    await updateAll(id, ['set_limits', 'set_max_in_flight', 'groups']);
    await updateAll(`${id}/0-0`, ['set_limits']);
    const { turn } = await rollout.query<RolloutProgress>('progress');
    await goOn();
    await isAt(turn + 2);
    const { phase, running } = await handle.query<BatchProgress>('progress');
    assert.deepEqual({ phase, running }, { phase: 'running', running: 2 });
    await sending(bed.server.client, FEW_UNREADABLE[0]!.sent)
      .workflow.getHandle(id)
      .signal('stop', null);
    const { result } = await outcome();
    assert.equal(result?.counts.stopped, 2);
    for (const one of [id, `${id}/0-0`, `${id}/1-0`]) assert.equal(await failed(one), 0);
  });

  test('is ignored or refused by streams, their groups and policies', async () => {
    const id = 'stream';
    const { client } = bed.server;
    const input = { ...puzzleRequest({ samples: 2, num_repeats: 2 }), groups_per_step: 1 };
    const stream = await client.workflow.start('rolloutStream', {
      workflowId: id,
      taskQueue: QUEUE,
      args: [input],
    });
    const policy = await client.workflow.start('policy', {
      workflowId: 'policy/default',
      taskQueue: QUEUE,
      args: [{ service: 'default' }],
    });
    await eventually({ what: 'a group', timeout_ms: 30_000 }, async () => {
      const progress = await stream.query<StreamProgress>('progress').catch(() => null);
      return (progress?.admitted ?? 0) > 0;
    });
    for (const one of [id, 'policy/default']) await signalAll(one);
    await updateAll(id, ['next_step', 'forget', 'set_limits', 'set_max_in_flight']);
    await updateAll('policy/default', ['publish']);
    const step = await stream.executeUpdate<{ ready: boolean }, [object]>('next_step', {
      args: [{ step: 0, version: 0 }],
    });
    assert.equal(step.ready, true);
    await stream.signal('stop');
    await stream.result();
    await policy.terminate();
    for (const one of [id, 'policy/default', `${id}/0`]) assert.equal(await failed(one), 0);
  });
});
