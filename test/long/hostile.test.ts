/** Texts that act, and floods: any client of the Temporal server may signal and update anything, as often as it likes. */
import assert from 'node:assert/strict';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { after, before, describe, test } from 'node:test';
import { WorkflowUpdateFailedError } from '@temporalio/client';
import type { BatchProgress } from '../../src/activities/contract.js';
import type { Simulator } from '../../simulator/server.js';
import { startSimulator } from '../../simulator/server.js';
import { RUBBISH } from '../fakes/hostile-inputs.js';
import { startBatch } from '../../lab/bed/batch.js';
import { puzzleRequest } from '../../lab/bed/puzzle-request.js';
import { assertComplete } from '../harness/row-comparison.js';
import type { Testbed } from '../harness/testbed.js';
import { startTestbed } from '../harness/testbed.js';
import { eventually } from '../../lab/bed/waiting.js';
import type { WorkerProcess } from '../../lab/bed/worker.js';

const QUEUE = 'hostile';

/** Active characters, and Markdown. */
const TEXT =
  '\u001b[31m\u001b]0;owned\u0007 \u202egnp.exe \u200b<img src=x onerror=alert(1)> ![p](http://127.0.0.1:2/p.png) [click](http://evil.example) `c`\n\n# heading';
const ACTING = /[\u0000-\u0008\u000b-\u001f\u007f-\u009f\u200b\u202e]/;

/** An engine that refuses every request, with active characters in its message. */
async function startBusyEngine(): Promise<{ url: string; close: () => void }> {
  const server = createServer(({ url }, response) => {
    if (url === '/health') {
      response.end();
      return;
    }
    response.writeHead(503, { 'content-type': 'application/json' });
    response.end(JSON.stringify({ error: { message: `too busy ${TEXT}`, type: 'x', code: 503 } }));
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  const { port } = server.address() as AddressInfo;
  return { url: `http://127.0.0.1:${port}/v1`, close: () => server.close() };
}

describe('a deployment holds against', () => {
  let bed: Testbed;
  let simulator: Simulator;
  let busy: { url: string; close: () => void };
  let worker: WorkerProcess;

  before(async () => {
    bed = await startTestbed('hostile');
    simulator = await startSimulator({
      settings: { thinking_tokens: 8, skill: 0, seed: 1, tokens_per_second: 20 },
      port: 0,
    });
    busy = await startBusyEngine();
    worker = await bed.startWorker({
      task_queue: QUEUE,
      generation: {
        default: { kind: 'vllm', base_urls: [`${simulator.url}/v1`] },
        busy: { kind: 'vllm', base_urls: [busy.url] },
      },
      worker: { turn_slice: '0s', heartbeat_timeout: '2s' },
    });
  });
  after(async () => {
    await bed.end();
    await simulator.close();
    busy.close();
  });

  test('texts that act: what is waited for is shown as it is, in one line, and the log has none', async () => {
    const request = puzzleRequest({ samples: 1, num_repeats: 1 });
    const batch = await startBatch(bed.batch('acting', QUEUE), {
      ...request,
      generation: { service: 'busy' },
    });
    const { handle } = batch;
    const untilWaiting = (text: string) =>
      eventually(`it to wait for ${text}`, async () => {
        const progress = await handle.query<BatchProgress>('progress').catch(() => null);
        return progress?.waiting?.message.includes(text) === true && progress;
      });
    await untilWaiting('too busy');
    await handle.signal('waiting', { service: TEXT, message: TEXT + 'x'.repeat(1_000_000) });
    const { waiting } = await untilWaiting('heading');
    assert.ok(waiting !== null && waiting.message.length <= 300);
    assert.doesNotMatch(waiting.service + waiting.message, ACTING);
    const metadata = await handle.query<{ currentDetails: string }>('__temporal_workflow_metadata');
    assert.doesNotMatch(metadata.currentDetails, ACTING);
    // Inside code spans Markdown has no meaning; the text itself has single backticks at most.
    const line = metadata.currentDetails.split('\n').find((one) => one.startsWith('Waiting for'));
    assert.match(line ?? '', /^Waiting for `` .*<img.*# heading ``: `` .*<img.*# headingx* ``$/);
    const log = await worker.log();
    assert.match(log, /too busy.*gnp\.exe/);
    assert.doesNotMatch(log, ACTING);
    await handle.terminate();
  });

  test('texts that act, in a request: the failure names the field in one line', async () => {
    const request = { samples: [], [TEXT]: 1, generation: { service: TEXT } };
    const batch = await startBatch(bed.batch('acting-request', QUEUE), request);
    const { failure } = await batch.outcome();
    assert.match(failure?.message ?? '', /gnp\.exe .*# heading: unknown field/);
    assert.doesNotMatch(failure?.message ?? '', ACTING);
  });

  test('10,000 signals and a thousand updates of any shape while a batch runs: it ends with all its rows', async () => {
    const size = { samples: 4, repeats: 2 };
    const batch = await startBatch(
      bed.batch('flooded', QUEUE),
      puzzleRequest({ samples: size.samples, num_repeats: size.repeats }),
    );
    const { handle } = batch;
    const child = bed.server.client.workflow.getHandle('flooded/0-0');
    await eventually('the batch to run', async () => {
      const progress = await handle.query<BatchProgress>('progress').catch(() => null);
      return (progress?.running ?? 0) > 0;
    });
    const rubbish = [null, 0, TEXT, ...RUBBISH];
    const signals = ['waiting', 'tally', 'share', 'limits', 'nonsense', '__stop'];
    let refused = 0;
    const send = async (n: number): Promise<void> => {
      const input: unknown = rubbish[n % rubbish.length];
      const to = n % 3 === 0 ? child : handle;
      const name = signals[n % signals.length] ?? '';
      // A child may have ended, and the server takes 10,000 signals at most.
      await to.signal(name, input).catch(() => undefined);
      if (n % 10 !== 0) return;
      const update = ['set_limits', 'set_max_in_flight', 'no_update'][n % 3] ?? '';
      await handle.executeUpdate(update, { args: [input] }).catch((error: unknown) => {
        if (error instanceof WorkflowUpdateFailedError) refused += 1;
      });
    };
    for (let n = 0; n < 10_000; n += 100)
      await Promise.all(Array.from({ length: 100 }, (_, i) => send(n + i)));
    const outcome = await batch.outcome();
    assert.equal(outcome.failure, null);
    assertComplete(outcome, size);
    assert.ok(refused > 0, 'no update came while it ran');
  });

  test('a thousand stops: each running rollout gets one, and the batch is closed', async () => {
    const size = { samples: 6, repeats: 2 };
    const batch = await startBatch(bed.batch('stopped', QUEUE), {
      ...puzzleRequest({ samples: size.samples, num_repeats: size.repeats }),
      max_rollout_turns: 100,
    });
    const { handle } = batch;
    await eventually('the batch to run', async () => {
      const progress = await handle.query<BatchProgress>('progress').catch(() => null);
      return progress?.running === 12;
    });
    await Promise.all(Array.from({ length: 1000 }, () => handle.signal('stop').catch(() => null)));
    const { failure, result } = await batch.outcome();
    assert.equal(failure, null);
    assert.equal(result?.counts.requested, 12);
    const { events } = await handle.fetchHistory();
    const told = (events ?? []).filter(
      (event) => event.signalExternalWorkflowExecutionInitiatedEventAttributes != null,
    );
    assert.equal(told.length, 12);
  });
});
