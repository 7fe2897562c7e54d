/**
 * In the middle of a turn of ten minutes, with rare heartbeats: how long until a stop, a cancellation, changed limits, the
 * deadline and a worker's end have effect, and how many tokens they cost. Prints a table.
 */
import assert from 'node:assert/strict';
import { after, before, describe, test } from 'node:test';
import type { WorkflowHandle } from '@temporalio/client';
import type { RequestEntry } from '../../simulator/request-log.js';
import type { StartedBatch } from '../../lab/bed/batch.js';
import { readJournal, startBatch, startSingleRollout } from '../../lab/bed/batch.js';
import { puzzleRequest } from '../../lab/bed/puzzle-request.js';
import type { Testbed } from '../harness/testbed.js';
import { startTestbed } from '../harness/testbed.js';
import { eventually } from '../../lab/bed/waiting.js';
import type { WorkerProcess } from '../../lab/bed/worker.js';

const QUEUE = 'long-turns';
/** A second is what it takes, on cores of its own. What it must not wait for, heartbeats and turns, takes minutes. */
const WITHIN_S = 60;
const TOKENS_PER_S = 10;
const GENERATION = { max_new_tokens: 8000, seed: 3 };
const LONG = { generation: GENERATION, max_seq_len: 16_000, max_rollout_turns: 3 };

interface Measured {
  what: string;
  /** Until the workflow has ended, or the change is answered. */
  workflow_s: number | null;
  /** Until the engine's stream is closed, or the limit has cut it. */
  engine_s: number | null;
  tokens_lost: number | null;
}

describe('in a turn of ten minutes', () => {
  const measured: Measured[] = [];
  let bed: Testbed;
  let url = '';
  const workers: WorkerProcess[] = [];

  const startWorker = async (name: string): Promise<WorkerProcess> => {
    const generation = { default: { kind: 'vllm' as const, base_urls: [`${url}/v1`] } };
    const worker = await bed.startWorker({
      task_queue: QUEUE,
      name,
      generation,
      worker: { turn_slice: '10m', heartbeat_timeout: '10m' },
    });
    workers.push(worker);
    return worker;
  };

  before(async () => {
    bed = await startTestbed('long-turns');
    const { default: service } = await bed.simulate({
      default: {
        skill: 0,
        seed: 1,
        thinking_tokens: 6000,
        tokens_per_second: TOKENS_PER_S,
        max_model_len: 16_000,
      },
    });
    url = (service?.base_urls[0] ?? '').replace(/\/v1$/, '');
    await startWorker('first');
  });
  after(async () => {
    console.table(measured);
    await bed.end();
  });

  const requestsOf = async (id: string): Promise<RequestEntry[]> => {
    const answer = await fetch(`${url}/simulator/requests`);
    const { requests } = (await answer.json()) as { requests: RequestEntry[] };
    return requests.filter(({ rollout_id }) => rollout_id?.startsWith(`${id}/`));
  };
  /** Until each rollout of it has some tokens. */
  const untilItFlows = (id: string, rollouts = 1) =>
    eventually(`tokens of ${id}`, async () => {
      const requests = await requestsOf(id);
      return requests.filter(({ tokens_sent }) => tokens_sent >= 10).length >= rollouts;
    });
  const journalled = async (id: string): Promise<number> => {
    const lines = await readJournal(bed.store_root, { batch_id: id, row: 0, repeat: 0 });
    return lines.reduce(
      (most, line) => (line.kind === 'chunk' ? line.offset + line.token_ids.length : most),
      0,
    );
  };
  const batchOf = (id: string, rollouts = 2): Promise<StartedBatch> =>
    startBatch(bed.batch(id, QUEUE), {
      ...puzzleRequest({ samples: rollouts, num_repeats: 1 }, LONG),
    });
  const rolloutOf = (id: string, more: object = {}): Promise<StartedBatch> => {
    const { samples } = puzzleRequest({ samples: 1, num_repeats: 1 });
    const [sample] = samples as unknown[];
    return startSingleRollout(bed.batch(id, QUEUE), { sample, ...LONG, ...more });
  };
  const setLimits = (handle: WorkflowHandle, input: unknown) =>
    handle.executeUpdate('set_limits', { args: [input] });

  /** Seconds until it ends on both sides. */
  async function ends(
    what: string,
    { batch: { batch_id, outcome }, act }: { batch: StartedBatch; act: () => Promise<unknown> },
  ): Promise<Awaited<ReturnType<StartedBatch['outcome']>>> {
    const began = performance.now();
    await act();
    const since = (): number => (performance.now() - began) / 1000;
    const engine = eventually('closed streams', async () => {
      const requests = await requestsOf(batch_id);
      return requests.every((one) => one.outcome !== 'open') && since();
    });
    const [ended, workflow_s, engine_s] = await Promise.all([
      outcome(),
      outcome().then(since),
      engine,
    ]);
    const sent = (await requestsOf(batch_id)).filter((one) => one.rollout_id === `${batch_id}/0-0`);
    const tokens_sent = sent.reduce((sum, one) => sum + one.tokens_sent, 0);
    const tokens_lost = tokens_sent - (await journalled(batch_id));
    report({ what, workflow_s, engine_s, tokens_lost });
    return ended;
  }
  const report = (one: Measured): void => {
    const rounded = (n: number | null): number | null => n && Math.round(n * 100) / 100;
    measured.push({ ...one, workflow_s: rounded(one.workflow_s), engine_s: rounded(one.engine_s) });
    for (const seconds of [one.workflow_s, one.engine_s])
      assert.ok(seconds === null || seconds <= WITHIN_S, `${one.what}: ${seconds} s`);
    assert.ok((one.tokens_lost ?? 0) <= 64, `${one.what}: ${one.tokens_lost} tokens lost`);
  };

  test('a stop ends a batch, and a cancellation a batch and a rollout', async () => {
    const stopped = await batchOf('stopped');
    await untilItFlows('stopped', 2);
    const stop = () => stopped.handle.signal('stop');
    const { result } = await ends('stop of a batch', { batch: stopped, act: stop });
    assert.equal(result?.counts.stopped, 2);

    const cancelled = await batchOf('cancelled');
    await untilItFlows('cancelled', 2);
    await ends('cancel of a batch', { batch: cancelled, act: () => cancelled.handle.cancel() });

    const single = await rolloutOf('single');
    await untilItFlows('single');
    await ends('cancel of a rollout', { batch: single, act: () => single.handle.cancel() });
  });

  test('smaller limits end the answer, in a batch and in a rollout that is still opened', async () => {
    for (const [what, started] of [
      ['batch', batchOf('shorter', 1)],
      ['rollout', rolloutOf('shorter-one')],
    ] as const) {
      const batch = await started;
      const { batch_id } = batch;
      await untilItFlows(batch_id);
      const began = performance.now();
      await setLimits(batch.handle, { max_new_tokens: 12, max_rollout_turns: 1 });
      const workflow_s = (performance.now() - began) / 1000;
      const { rollouts } = await batch.outcome();
      const engine_s = (performance.now() - began) / 1000;
      const [row] = rollouts;
      assert.equal(row?.turn_count, 1);
      report({ what: `set_limits of a ${what}, shorter`, workflow_s, engine_s, tokens_lost: 0 });
    }
  });

  test('a larger limit lets the answer go on', async () => {
    const batch = await rolloutOf('longer', { generation: { ...GENERATION, max_new_tokens: 60 } });
    await untilItFlows('longer');
    const began = performance.now();
    await setLimits(batch.handle, { max_new_tokens: 90, max_rollout_turns: 1 });
    const workflow_s = (performance.now() - began) / 1000;
    const { rollouts } = await batch.outcome();
    const [row] = rollouts;
    assert.equal(row?.assistant_tokens, 90);
    report({ what: 'set_limits of a rollout, longer', workflow_s, engine_s: null, tokens_lost: 0 });
  });

  test('a deadline that is moved ends it, and one that is far does not', async () => {
    const batch = await rolloutOf('deadline', { rollout_timeout: '5s' });
    await untilItFlows('deadline');
    await setLimits(batch.handle, { rollout_timeout: '1h' });
    await new Promise((resolve) => setTimeout(resolve, 6000));
    assert.ok((await requestsOf('deadline')).some(({ outcome }) => outcome === 'open'));
    const act = () => setLimits(batch.handle, { rollout_timeout: '1s' });
    const { failure } = await ends('rollout_timeout', { batch, act });
    assert.equal(failure?.type, 'TimedOut');
  });

  test('a worker that is told to end hands over: another one continues after the last token', async () => {
    const batch = await rolloutOf('handed');
    await untilItFlows('handed');
    await startWorker('second');
    const before = (await requestsOf('handed')).length;
    const began = performance.now();
    const since = (): number => (performance.now() - began) / 1000;
    const ended = workers[0]!.kill('SIGTERM');
    const engine_s = await eventually('a closed stream', async () => {
      const [first] = await requestsOf('handed');
      return first?.outcome !== 'open' && since();
    });
    const workflow_s = await eventually('its next token', async () => {
      const requests = await requestsOf('handed');
      return requests.length > before && (requests.at(-1)?.tokens_sent ?? 0) > 0 && since();
    });
    await ended;
    const act = () => batch.handle.signal('stop');
    const sent = (await requestsOf('handed'))[0]!.tokens_sent;
    const kept = await eventually('a chunk of the next', async () => {
      const lines = await readJournal(bed.store_root, { batch_id: 'handed', row: 0, repeat: 0 });
      const second = lines.filter(({ kind }) => kind === 'claim')[1]?.writer;
      const from = lines.find((line) => line.kind === 'chunk' && line.writer === second);
      return from?.kind === 'chunk' ? from.offset : null;
    });
    report({ what: 'SIGTERM of the worker', workflow_s, engine_s, tokens_lost: sent - kept });
    await ends('stop after it', { batch, act });
  });
});
