/** Two deployments in one namespace: no command of one reaches a workflow of the other, whatever their ids. */
import assert from 'node:assert/strict';
import { existsSync } from 'node:fs';
import { after, before, describe, test } from 'node:test';
import { pino } from 'pino';
import { OtherDeployment, STORE_MEMO } from '../../src/activities/contract/one-deployment.js';
import type { BatchClient } from '../../src/client/batch-client.js';
import { connectBatchClient } from '../../src/client/batch-client.js';
import { openRuns } from '../../src/client/list/runs.js';
import type { PolicyClient, PolicyUpdate } from '../../src/client/policy-client.js';
import { connectPolicy } from '../../src/client/policy-client.js';
import { onLoopback } from '../../src/client/server.js';
import type { StreamClient } from '../../src/client/stream-client.js';
import { connectStream } from '../../src/client/stream-client.js';
import { trainerInstall } from '../../dev/trainer-example.js';
import { livingWorkers } from '../../src/temporal/pollers.js';
import { foreignPolicy, reachPolicies } from '../../src/workers/policies.js';
import type { OwnServer } from '../../lab/bed/server.js';
import { startLoneServer } from '../../lab/bed/stack.js';
import { startAsked } from '../harness/python-asked.js';
import { eventually } from '../../lab/bed/waiting.js';

const [OURS, THEIRS] = ['ours', 'theirs'];
const REQUEST = { samples: { path: 'samples.jsonl' } };
const NAMES_BOTH = /another deployment's: its task queue is theirs, this one's is ours/;

const skip = existsSync(trainerInstall(process.env).stamp)
  ? false
  : 'what the Python package needs is not installed: `node tools/setup.mjs --test` says why';

const log = pino({ level: 'silent' });

describe('an id that another deployment in the namespace has', () => {
  let server: OwnServer;
  let batches: BatchClient;
  let stream: StreamClient;
  let policy: PolicyClient;

  before(async () => {
    server = await startLoneServer('one-deployment');
    const { workflow } = server.client;
    const theirs = { taskQueue: THEIRS };
    await workflow.start('rolloutBatch', { ...theirs, workflowId: 'step-1', args: [REQUEST] });
    await workflow.start('rolloutStream', { ...theirs, workflowId: 's', args: [REQUEST] });
    await workflow.start('policy', { ...theirs, workflowId: 'policy/default' });
    const own = onLoopback({ ...server, taskQueue: OURS });
    batches = await connectBatchClient(own);
    stream = await connectStream(own, 's');
    policy = await connectPolicy(own, { service: 'default', task_queue: OURS });
  });
  after(async () => {
    await Promise.all([batches.close(), stream.close(), policy.close()]);
    await server.stop();
  });

  const eventsOf = async (id: string): Promise<number> => {
    const { events } = await server.client.workflow.getHandle(id).fetchHistory();
    return events?.length ?? 0;
  };
  const refused = async (id: string, calls: Record<string, () => Promise<unknown>>) => {
    const before = await eventsOf(id);
    for (const [name, call] of Object.entries(calls))
      await assert.rejects(
        call(),
        (error) => error instanceof OtherDeployment && NAMES_BOTH.test(error.message),
        name,
      );
    assert.equal(await eventsOf(id), before, 'nothing has reached it');
  };

  test('is no batch to start, join, watch, read, steer or end, though the requests are the same', () =>
    refused('step-1', {
      start: () => batches.start({ batchId: 'step-1', taskQueue: OURS, request: REQUEST }),
      type: () => batches.typeOf('step-1'),
      look: () => batches.attach('step-1').look(),
      outcome: () => batches.attach('step-1').outcome(),
      status: () => batches.status('step-1'),
      stop: () => batches.stop('step-1'),
      cancel: () => batches.cancel('step-1'),
      limit: () => batches.setMaxInFlight('step-1', 5),
    }));

  test('is no stream to look at, to stop, or to forget steps of', () =>
    refused('s', {
      look: () => stream.look(),
      stop: () => stream.stop(),
      forget: () => stream.forget(1),
    }));

  test('is no policy to update, signal or ask: the weights of one never reach the engines of the other', async () => {
    const updates: PolicyUpdate[] = ['publish', 'begin', 'finish', 'abandon', 'attach'];
    updates.push('sleep', 'wake', 'engines', 'join', 'drain', 'leave');
    await refused('policy/default', {
      ...Object.fromEntries(updates.map((name) => [name, () => policy.update(name, {})])),
      alive: () => policy.alive({ ticket: 't', done: 1 }),
      status: () => policy.status(),
    });
  });

  test('is a fault by name for each call of the Python client', { skip }, async () => {
    await server.client.workflow.start('rollout', { taskQueue: THEIRS, workflowId: 'one' });
    const calls = {
      'step-1': ['start_batch', 'group', 'wait', 'rows', 'batch_progress', 'batch_stop', 'cancel'],
      one: ['rollout'],
      s: ['stream', 'next_step', 'forget', 'stream_progress', 'stream_stop'],
      'policy/default': ['publish', 'attach', 'sleep', 'wake', 'join', 'status'],
    };
    calls['step-1'].push('set_max_in_flight');
    const python = startAsked('other_deployment.py');
    const ask = (what: string) => python.ask(server.address, server.namespace, what);
    try {
      for (const [id, names] of Object.entries(calls)) {
        const before = await eventsOf(id);
        for (const name of names) {
          const { type, message } = (await ask(name)) as { type: string; message: string };
          assert.equal(type, 'OtherDeployment', `${name}: ${message}`);
          assert.match(message, NAMES_BOTH, name);
        }
        assert.equal(await eventsOf(id), before, id);
      }
      for (const name of ['batches', 'streams'])
        assert.deepEqual(await ask(name), { answered: '[]' });
    } finally {
      python.end();
    }
  });

  test('is in no list', async () => {
    const { workflow } = server.client;
    await workflow.start('rolloutBatch', { taskQueue: OURS, workflowId: 'own', args: [REQUEST] });
    const runs = openRuns(onLoopback({ ...server, taskQueue: OURS }));
    try {
      await eventually(
        'the search to find it',
        async () => (await batches.unfinished()).length > 0,
      );
      assert.deepEqual(await batches.unfinished(), ['own']);
      assert.deepEqual(
        (await runs.list()).map(({ id }) => id),
        ['own'],
      );
    } finally {
      await runs.close();
    }
  });

  test('keeps a worker from serving its service: the message names both queues and the ways on', async () => {
    const { client } = server;
    const of = (service: string) => foreignPolicy(client, { service, task_queue: OURS });
    assert.equal(await of('other'), null, 'nobody has it');
    assert.match(
      (await of('default')) ?? '',
      /^policy\/default is another deployment's: its task queue is theirs, this one's is ours .*a namespace or a service name of its own/,
    );
    const policies = reachPolicies(client, { task_queue: OURS, log });
    await assert.rejects(policies.wake('default'), OtherDeployment);
  });

  test('is free for a policy once that of the other deployment has ended, and is read by nobody', async () => {
    await server.client.workflow.getHandle('policy/default').terminate();
    assert.equal(
      await foreignPolicy(server.client, { service: 'default', task_queue: OURS }),
      null,
    );
    await assert.rejects(policy.status(), OtherDeployment);
    await reachPolicies(server.client, { task_queue: OURS, log }).wake('default');
    const { taskQueue } = await server.client.workflow.getHandle('policy/default').describe();
    assert.equal(taskQueue, OURS);
  });

  test('is also one whose store is not that of the queue’s workers', async () => {
    const { workflow, workflowService, connection, options } = server.client;
    const there = (store: string) => ({
      taskQueue: OURS,
      args: [REQUEST],
      memo: { [STORE_MEMO]: store },
    });
    await workflow.start('rolloutBatch', { ...there('aa'), workflowId: 'of-a' });
    await workflow.start('rolloutBatch', { ...there('bb'), workflowId: 'of-b' });
    assert.equal(await batches.typeOf('of-a'), 'rolloutBatch', 'nobody knows the own store');
    const name = { name: OURS };
    const identity = '1@host/store=bb/generation=default';
    const poll = { namespace: options.namespace, taskQueue: name, identity };
    const queue = { namespace: options.namespace, name: OURS, type: 'workflow' } as const;
    // A poll of one of the queue's partitions is not always told.
    await eventually('the server to know who polls', async () => {
      await connection
        .withDeadline(Date.now() + 15_000, () => workflowService.pollWorkflowTaskQueue(poll))
        .catch(() => undefined);
      return (await livingWorkers(workflowService, queue)).length > 0;
    });
    const client = await connectBatchClient(onLoopback({ ...server, taskQueue: OURS }));
    try {
      assert.equal(await client.typeOf('of-b'), 'rolloutBatch');
      await assert.rejects(
        client.typeOf('of-a'),
        /of-a is another deployment's: its store is aa, that of the workers of task queue ours is bb/,
      );
    } finally {
      await client.close();
    }
  });
});
