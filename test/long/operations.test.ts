/** What an engineer does to workflows with Temporal's own commands: delay, reset, pause, terminate, half a deployment. */
import assert from 'node:assert/strict';
import { writeFile } from 'node:fs/promises';
import path from 'node:path';
import { after, before, describe, test } from 'node:test';
import { setTimeout as sleep } from 'node:timers/promises';
import type { WorkflowHandle } from '@temporalio/client';
import type { BatchProgress } from '../../src/activities/contract.js';
import type { BatchHandle } from '../../src/client/batch-client.js';
import { connectBatchClient } from '../../src/client/batch-client.js';
import { onLoopback } from '../../src/client/server.js';
import type { StartedBatch } from '../../lab/bed/batch.js';
import { startBatch, startSingleRollout } from '../../lab/bed/batch.js';
import { NO_PYTHON, outputOf, startCommand, startPython } from '../../lab/bed/command.js';
import { firstTaskAfter, operatorOf, taskAt } from '../../lab/bed/operator.js';
import { puzzleRequest } from '../../lab/bed/puzzle-request.js';
import { openStreamToTest } from '../../lab/bed/stream.js';
import { temporalOn } from '../harness/temporal-command.js';
import type { Testbed } from '../harness/testbed.js';
import { startTestbed } from '../harness/testbed.js';
import { eventually } from '../../lab/bed/waiting.js';

const QUEUE = 'operations';
const HALF = 'operations-half';

describe('in the hands of an operator', { concurrency: 4 }, () => {
  let bed: Testbed;

  before(async () => {
    bed = await startTestbed('operations');
    const settings = { thinking_tokens: 8, skill: 0, seed: 1 };
    const generation = await bed.simulate({
      default: { ...settings, tokens_per_second: 5000 },
      // A turn takes about three seconds.
      slow: { ...settings, tokens_per_second: 5 },
    });
    const both = { generation };
    const worker = { turn_slice: '0s', heartbeat_timeout: '2s' };
    await bed.startWorker({ task_queue: QUEUE, ...both, worker });
    await bed.startWorker({ task_queue: HALF, ...both, worker: { roles: ['workflow'] } });
  });
  after(() => bed.end());

  const progressOf = (handle: WorkflowHandle): Promise<BatchProgress | null> =>
    handle.query<BatchProgress>('progress').catch(() => null);
  const untilRunning = (handle: WorkflowHandle, running: number): Promise<BatchProgress> =>
    eventually(`${running} rollouts that run`, async () => {
      const progress = await progressOf(handle);
      return progress?.running === running && progress.turns > 0 && progress;
    });
  const slowly = (id: string, turns: number): Promise<StartedBatch> => {
    const request = puzzleRequest({ samples: 1, num_repeats: 2 }, { max_rollout_turns: turns });
    const generation = { ...request.generation, service: 'slow' };
    return startBatch(bed.batch(id, QUEUE), { ...request, generation });
  };
  async function lookingAt<T>(id: string, body: (batch: BatchHandle) => Promise<T>): Promise<T> {
    const client = await connectBatchClient(onLoopback(bed.server));
    try {
      return await body(client.attach(id));
    } finally {
      await client.close();
    }
  }

  test('a delayed start takes nothing of rollout_timeout, and the board says when it begins', async () => {
    const request = puzzleRequest({ samples: 1, num_repeats: 2 }, { rollout_timeout: '8s' });
    const id = 'delayed';
    const completion = { policy: 'min_k' as const, k: 2, deadline: '8s' };
    const { client } = bed.server;
    const start = {
      workflowId: id,
      taskQueue: QUEUE,
      startDelay: '12s' as const,
      args: [{ ...request, completion }],
    };
    const handle = await client.workflow.start('rolloutBatch', start);
    const { trouble, closed } = await lookingAt(id, (batch) => batch.look());
    assert.equal(closed, false);
    assert.match(
      trouble ?? '',
      /^delayed begins at \d{4}-\d\d-\d\d \d\d:\d\d:\d\d UTC: its start is delayed$/,
    );
    const { counts } = (await handle.result()) as { counts: object };
    assert.deepEqual({ ...counts, completed: 2 }, counts);
  });

  test('a queue that nobody polls is named long before it ends, and rollout_timeout holds meanwhile', async () => {
    const request = puzzleRequest({ samples: 1, num_repeats: 2 }, { rollout_timeout: '40s' });
    const { handle, outcome } = await startBatch(bed.batch('half', HALF), request);
    const waiting = await eventually('waiting', async () => (await progressOf(handle))?.waiting);
    assert.equal(waiting.service, `a worker of task queue ${HALF}-generation`);
    assert.match(waiting.message, /no worker polls it: start one/);
    const { failures } = await outcome();
    assert.deepEqual(
      failures.map(({ stop_reason }) => stop_reason),
      ['timeout', 'timeout'],
    );
  });

  test('so it is for a rollout started by hand, for a stream, for its trainer, and by show', async () => {
    const { client } = bed.server;
    const request = puzzleRequest({ samples: 2, num_repeats: 1 });
    const [sample] = request.samples as unknown[];
    const { generation, max_seq_len } = request;
    const alone = await startSingleRollout(bed.batch('half-alone', HALF), {
      sample,
      generation,
      max_seq_len,
    });
    const stream = openStreamToTest({
      client: () => client,
      store_root: bed.store_root,
      id: 'half-stream',
      task_queue: HALF,
    });
    await stream.start({ ...request, groups_per_step: 2 });
    const asked = stream.ask({ step: 0, version: 0, wait: '30s' });
    const service = `a worker of task queue ${HALF}-generation`;
    for (const handle of [alone.handle, stream.handle()]) {
      const what = `the wait of ${handle.workflowId}`;
      const waiting = await eventually(what, async () => (await progressOf(handle))?.waiting);
      assert.equal(waiting.service, service);
    }
    const answer = await asked;
    assert.ok(!answer.ready);
    assert.match(answer.why, new RegExp(`; waits for ${service}: no worker polls it`));

    const at = ['--config', path.join(bed.directory, `${HALF}.yaml`)];
    const said = new RegExp(`waiting for ${service}: no worker polls it: start one`);
    // It asks for what they wait for, and leaves that out where no answer comes in time.
    for (const id of ['half-alone', 'half-stream', 'half-stream/0-0'])
      await eventually(`show ${id} to say it`, async () => {
        const command = startCommand(['show', id, ...at]);
        await command.exited;
        return said.test(command.output());
      });
    await stream.handle().signal('stop');
    await stream.handle().result();
    await alone.handle.cancel();
    await assert.rejects(alone.handle.result());
  });

  test('a rollout that was terminated is waited for no more', async () => {
    const { handle, outcome } = await slowly('terminated', 12);
    await untilRunning(handle, 2);
    await bed.server.client.workflow.getHandle('terminated/0-0').terminate('by hand');
    await eventually('one rollout', async () => (await progressOf(handle))?.running === 1);
    // Its journal would have been silent for long enough by now.
    await sleep(33_000);
    assert.equal((await progressOf(handle))?.waiting, null);
    await handle.signal('stop');
    const { failures } = await outcome();
    assert.deepEqual(
      failures.map(({ stop_reason }) => stop_reason),
      ['stopped', 'stopped'],
    );
  });

  test('rollouts that a query finds are reset and terminated as one by one', async () => {
    const { handle, outcome } = await slowly('by-query', 4);
    await untilRunning(handle, 2);
    const temporal = await temporalOn(bed.server);
    const found = (id: string): string =>
      `RolloutTask="sliding_puzzle" AND ExecutionStatus="Running" AND WorkflowId="${id}"`;
    const how = ['--reason', 'by hand', '--yes'];
    await temporal(
      'workflow',
      'reset',
      '--query',
      found('by-query/0-0'),
      '--type',
      'LastWorkflowTask',
      ...how,
    );
    // A namespace has one such operation at a time.
    await eventually('the end of the reset', () =>
      temporal('workflow', 'terminate', '--query', found('by-query/0-1'), ...how).then(
        () => true,
        () => false,
      ),
    );
    const { rollouts, failures } = await outcome();
    assert.deepEqual(
      rollouts.map(({ repeat, turn_count }) => [repeat, turn_count]),
      [[0, 4]],
    );
    assert.deepEqual(
      failures.map(({ repeat, stop_reason }) => [repeat, stop_reason]),
      [[1, 'cancelled']],
    );
  });

  test('a batch that was reset to before its rollouts takes them over, with all that they have played', async () => {
    const { handle, outcome } = await slowly('reset', 4);
    await untilRunning(handle, 2);
    const { client } = bed.server;
    await operatorOf(bed.server).reset(
      'reset',
      firstTaskAfter('activityTaskCompletedEventAttributes'),
    );
    const again = client.workflow.getHandle('reset');
    const { rollouts, failures } = await eventually('rows', async () => {
      if ((await again.describe()).status.name === 'RUNNING') return null;
      return await outcome();
    });
    assert.deepEqual([rollouts.length, failures.length], [2, 0]);
    const { counts } = (await again.result()) as { counts: { completed: number } };
    assert.equal(counts.completed, 2);
    const after = (await again.fetchHistory()).events ?? [];
    const cancels = after.filter(
      ({ requestCancelExternalWorkflowExecutionInitiatedEventAttributes: at }) => at,
    );
    assert.equal(cancels.length, 2, 'both played on');
    for (const row of rollouts) assert.equal(row.turn_count, 4);
  });

  test('a rollout that timed out and is reset to its first task has all of rollout_timeout again', async () => {
    const request = puzzleRequest({ samples: 1, num_repeats: 1 });
    const { samples, max_seq_len } = request;
    const [sample] = samples as unknown[];
    const generation = { ...request.generation, service: 'slow' };
    const { handle } = await startSingleRollout(bed.batch('timed-out', QUEUE), {
      sample,
      generation,
      max_seq_len,
      rollout_timeout: '6s',
    });
    await assert.rejects(handle.result());
    await sleep(3000);
    const { client } = bed.server;
    await operatorOf(bed.server).reset('timed-out', taskAt(0));
    const again = client.workflow.getHandle('timed-out');
    await assert.rejects(again.result());
    const { events } = await again.fetchHistory();
    const times = (events ?? []).map(({ eventTime }) => Number(eventTime?.seconds));
    const task = (events ?? []).findIndex(({ workflowTaskFailedEventAttributes: at }) => at);
    assert.ok(times.at(-1)! - times[task]! >= 5, `it had ${times.at(-1)! - times[task]!} s`);
  });

  const pause = (workflowId: string, ends = false): Promise<void> => {
    const operator = operatorOf(bed.server);
    return ends ? operator.unpause(workflowId) : operator.pause(workflowId);
  };

  test('a paused batch is open and called paused by each command, and takes a stop', async () => {
    const { handle, outcome } = await slowly('paused', 12);
    await untilRunning(handle, 2);
    await pause('paused');
    const at = ['--config', path.join(bed.directory, `${QUEUE}.yaml`)];
    const [result, watch] = [
      startCommand(['result', 'paused', ...at]),
      startCommand(['watch', 'paused', ...at]),
    ];
    const way = 'paused is paused; temporal workflow unpause --workflow-id paused ends the pause';
    for (const command of [result, watch])
      await eventually('the way out', () => command.output().includes(way));
    assert.equal(
      await outputOf(['stop', 'paused', ...at]),
      `stop was sent, but ${way}; its results so far are kept\n`,
    );
    await pause('paused', true);
    assert.equal(await result.exited, 0, result.output());
    assert.equal(await watch.exited, 0, watch.output());
    const { failures } = await outcome();
    assert.deepEqual(
      failures.map(({ stop_reason }) => stop_reason),
      ['stopped', 'stopped'],
    );
  });

  test('Python waits while a batch is paused, and says so', { skip: NO_PYTHON }, async () => {
    const { handle } = await slowly('paused-here', 3);
    await untilRunning(handle, 2);
    await pause('paused-here');
    const program = [
      'import logging',
      'from durable_rollouts import Client, RolloutFault',
      'logging.basicConfig(format="%(message)s")',
      `batch = Client.connect(task_queue="${QUEUE}").batch("paused-here")`,
      'try: batch.progress()',
      'except RolloutFault as fault: print(fault.type, flush=True)',
      'for group in batch.groups(): print(len(group.rows), flush=True)',
      'print(batch.wait()["counts"]["completed"], flush=True)',
    ].join('\n');
    const python = startPython(program, bed.server);
    const way = /paused-here is paused; temporal workflow unpause --workflow-id paused-here ends/;
    await eventually('the way out', () => way.test(python.output()));
    await pause('paused-here', true);
    assert.equal(await python.exited, 0, python.output());
    assert.equal(python.stdout(), 'Paused\n2\n2\n');
  });

  test('a batch that Temporal no longer has is found in its store', async (t) => {
    if (bed.server.namespace === 'default') {
      t.skip('a server of its own has no other namespace');
      return;
    }
    const { outcome } = await startBatch(
      bed.batch('kept', QUEUE),
      puzzleRequest({ samples: 1, num_repeats: 1 }),
    );
    await outcome();
    // Of another namespace, as if retention had deleted it from its own.
    const file = path.join(bed.directory, 'elsewhere.yaml');
    const store = { kind: 'file', root: bed.store_root };
    const temporal = { address: bed.server.address, namespace: 'default' };
    await writeFile(file, JSON.stringify({ temporal, store, environments: {} }));
    for (const verb of ['result', 'watch']) {
      const command = startCommand([verb, 'kept', '--config', file]);
      assert.equal(await command.exited, 1);
      assert.match(
        command.output(),
        /namespace default no longer has batch kept; its result is in \S+\/kept\/metrics\.json, its journals are in \S+\/trajectories: temporal-rollout show kept/,
      );
    }
    assert.match(await outputOf(['show', 'kept', '--config', file]), /0-0/);
  });

  test('a request that no server takes is refused before it is sent', async () => {
    const at = ['--config', path.join(bed.directory, `${QUEUE}.yaml`)];
    const file = path.join(bed.directory, 'large.json');
    const samples = [
      { task_name: 'sliding_puzzle', message_log: [{ role: 'user', content: 'x'.repeat(6e6) }] },
    ];
    await writeFile(file, JSON.stringify({ samples }));
    const start = startCommand(['start', '--input-file', file, '--id', 'large', ...at]);
    assert.equal(await start.exited, 1);
    assert.match(
      start.output(),
      /the request of batch large \(write its samples to a file\): expected at most 1048576 bytes of arguments, got 60000\d\d; nothing was sent/,
    );
    await assert.rejects(bed.server.client.workflow.getHandle('large').describe(), {
      name: 'WorkflowNotFoundError',
    });
  });

  test('a second policy workflow of a service is refused', async () => {
    const start = { workflowId: 'mine', taskQueue: QUEUE, args: [{ service: 'default' }] };
    await assert.rejects(bed.server.client.workflow.execute('policy', start), ({ cause }: Error) =>
      /expected policy\/default as the workflow id of service "default", got mine/.test(
        String(cause),
      ),
    );
  });
});
