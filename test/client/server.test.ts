/** Who does not answer: the server, the worker, or nobody that is known. */
import assert from 'node:assert/strict';
import { after, before, describe, test } from 'node:test';
import type { Client, WorkflowUpdateHandle } from '@temporalio/client';
import {
  ApplicationFailure,
  QueryRejectedError,
  ServiceError,
  TerminatedFailure,
  WorkflowFailedError,
  WorkflowUpdateFailedError,
  WorkflowUpdateRPCTimeoutOrCancelledError,
} from '@temporalio/client';
import proto from '@temporalio/proto';
import type { Found } from '../../src/client/batch-client.js';
import type { BatchClient } from '../../src/client/batch-client.js';
import { openBatchClient } from '../../src/client/batch-client.js';
import { answered, onLoopback, silenceOf, updated } from '../../src/client/server.js';
import type { OwnServer } from '../../lab/bed/server.js';
import { startLoneServer } from '../../lab/bed/stack.js';
import { PATIENCE_MS } from '../../lab/bed/waiting.js';

const NO_WORKER = 'no worker answers for b yet; one has to run on its task queue';

/** As gRPC has it, in the SDK's error. */
const failed = (code: number, details: string): ServiceError =>
  new ServiceError('Failed to query Workflow', {
    cause: Object.assign(new Error(details), { code, details, metadata: {} }),
  });

describe('the error of a call that no worker answers', () => {
  test('says so, for queries and for updates', async () => {
    const errors = [
      failed(4, 'Deadline exceeded'),
      new WorkflowUpdateRPCTimeoutOrCancelledError('Deadline exceeded'),
    ];
    for (const error of errors)
      await assert.rejects(
        answered('b', () => Promise.reject(error)),
        { message: NO_WORKER, cause: error },
      );
  });

  test('names what the server says of itself or of a paused workflow, for queries, updates and looks', async () => {
    const paused = 'b is paused; temporal workflow unpause --workflow-id b ends the pause';
    const limited =
      'the Temporal server takes no more requests for now: namespace rate limit exceeded';
    const cases: [unknown, string][] = [
      [Reflect.construct(QueryRejectedError, [8]), paused],
      [failed(9, 'Workflow is paused. Cannot update the workflow.'), paused],
      [failed(8, 'namespace rate limit exceeded'), limited],
    ];
    for (const [error, message] of cases) {
      await assert.rejects(
        answered('b', () => Promise.reject(error as Error)),
        { message, cause: error },
      );
      assert.equal(silenceOf(error, { address: 'host:7233', workflowId: 'b' }), message);
    }
  });

  test('is not made of a worker’s refusal', async () => {
    const refusal = new Error('step: expected 3, got 5');
    await assert.rejects(
      answered('b', () => Promise.reject(refusal)),
      refusal,
    );
    assert.equal(await answered('b', () => Promise.resolve(5)), 5);
  });
});

/** The server's answer to an update, in its words. */
const refusedBy = (type: string): WorkflowUpdateFailedError =>
  new WorkflowUpdateFailedError('failed', ApplicationFailure.create({ type, message: type }));

/** An update whose runs answer so, one after the other; the first one has ended so. */
function asking(answers: readonly (Error | 5)[], ended: Error | null = null) {
  let asks = 0;
  let results = 0;
  const settled = (answer: Error | 5 | undefined | null) =>
    answer instanceof Error ? Promise.reject(answer) : Promise.resolve(answer);
  const start = () => {
    asks += 1;
    const result = () => settled(answers[results++]);
    return Promise.resolve({ workflowRunId: 'r', result } as WorkflowUpdateHandle<number>);
  };
  const getHandle = () => ({ result: () => settled(ended) });
  const client = { workflow: { getHandle } } as unknown as Client;
  return { asks: () => asks, answer: updated({ client }, { workflowId: 'b', start }) };
}

describe('an update that may be repeated', { concurrency: 4 }, () => {
  const [cut, unprocessed] = ['AcceptedUpdateCompletedWorkflow', 'UnprocessedUpdate'].map(
    refusedBy,
  );

  test('is sent again where no run has answered it', async () => {
    const { answer, asks } = asking([unprocessed!, cut!, 5], new TerminatedFailure('by hand'));
    assert.deepEqual([await answer, asks()], [5, 3]);
  });

  test('is not sent again to a workflow that fails by itself', async () => {
    const fault = ApplicationFailure.create({ message: 'service: expected default, got x' });
    const { answer, asks } = asking([cut!, 5], new WorkflowFailedError('f', fault, 'TIMEOUT'));
    await assert.rejects(answer, fault);
    assert.equal(asks(), 1);
  });

  test('is not sent again where the workflow refuses it', async () => {
    const refused = refusedBy('PolicyUpdateFailed');
    const { answer, asks } = asking([refused, 5]);
    await assert.rejects(answer, refused);
    assert.equal(asks(), 1);
  });

  test('is waited for while the server is away, and not sent again', async () => {
    const { answer, asks } = asking([
      failed(14, 'connect ECONNREFUSED'),
      new WorkflowUpdateRPCTimeoutOrCancelledError('Deadline exceeded'),
      failed(8, 'namespace rate limit exceeded'),
      5,
    ]);
    assert.deepEqual([await answer, asks()], [5, 1]);
    const large = failed(8, 'grpc: received message larger than max');
    await assert.rejects(asking([large, 5]).answer, large);
  });
});

test('a look that got no answer names the server or the worker only where that is certain', () => {
  const of = (error: unknown) => silenceOf(error, { address: 'host:7233', workflowId: 'b' });
  assert.equal(of(failed(4, 'Deadline exceeded')), null);
  assert.equal(of(failed(8, 'consistent query buffer is full')), null);
  assert.equal(of(failed(14, 'context deadline exceeded')), null);
  assert.equal(
    of(failed(14, 'connect ECONNREFUSED')),
    'waiting for the Temporal server at host:7233: connect ECONNREFUSED',
  );
  assert.equal(
    of(failed(9, 'no poller seen for task queue recently, worker may be down')),
    NO_WORKER,
  );
  assert.equal(
    of(failed(9, 'Workflow task is not scheduled yet.')),
    'Workflow task is not scheduled yet.',
  );
});

test('a server that cannot be reached is waited for with the last reason, in the same words at each look', () => {
  const of = (details: string) =>
    silenceOf(failed(14, details), { address: 'host:7233', workflowId: 'b' });
  const AT = '(2026-11-29T02:00:00.000Z)';
  for (const [details, why] of [
    [
      `No connection established. Last error: connect ECONNREFUSED 10.0.0.1:7233 ${AT}. Resolution note: `,
      ': connect ECONNREFUSED 10.0.0.1:7233',
    ],
    [
      `No connection established. Last error: Error: certificate has expired ${AT}. Resolution note: none`,
      ': certificate has expired',
    ],
    [
      'Name resolution failed for target dns:host:7233',
      ': Name resolution failed for target dns:host:7233',
    ],
    [
      'shard status unknown',
      ': shard status unknown (it has just started, or cannot write its database)',
    ],
    ['No connection established', ': No connection established'],
    ['', ''],
  ] as const)
    assert.equal(of(details), `waiting for the Temporal server at host:7233${why}`);
});

describe('a look at a batch', () => {
  let server: OwnServer;
  let client: BatchClient;
  before(async () => {
    server = await startLoneServer('server');
    client = openBatchClient(onLoopback(server));
    await server.client.workflow.start('rolloutBatch', { workflowId: 'b', taskQueue: 'q' });
  });
  after(async () => {
    await client.close();
    await server.stop();
  });

  test('asks for a worker where nobody polls the task queue', async () => {
    for (let look = 0; look < 3; look++) {
      const { begun_ms = 0, ...found } = await client.attach('b').look();
      const trouble = NO_WORKER.replace('its task queue', 'task queue q');
      assert.deepEqual(found, { closed: false, progress: null, trouble });
      assert.ok(Math.abs(Date.now() - begun_ms) < 60_000, 'as Temporal has it');
    }
  });

  test('waits for an answer where somebody polls, and blames nobody', async () => {
    const { workflowService, connection, options } = server.client;
    // It takes the batch's first task and never completes it.
    const poll = { namespace: options.namespace, taskQueue: { name: 'q' }, identity: 'slow' };
    await connection.withDeadline(Date.now() + PATIENCE_MS, () =>
      workflowService.pollWorkflowTaskQueue(poll),
    );
    const told: Found[] = [];
    const { begun_ms, ...look } = await client.attach('b').look((found) => told.push(found));
    assert.deepEqual(look, { closed: false, progress: null, trouble: null });
    const [begun, ...seen] = told;
    assert.deepEqual(begun, { begun_ms });
    assert.ok(seen.length > 1, 'again and again, because it grows old');
    for (const { seen: of } of seen) {
      assert.equal(of?.taskQueue, 'q');
      assert.ok(of.ago_s < 60);
    }
  });

  test('an update whose task a worker returns without a word of it reaches the next one', async () => {
    const { workflowService, connection, options, workflow } = server.client;
    const handle = await workflow.start('policy', { workflowId: 'p', taskQueue: 'of-p' });
    const poll = {
      namespace: options.namespace,
      taskQueue: { name: 'of-p' },
      identity: 'forgetful',
    };
    /** Returns the next task, with this answer to its updates. */
    const next = async (refusal: string | null): Promise<number> => {
      const { taskToken, messages } = await connection.withDeadline(Date.now() + PATIENCE_MS, () =>
        workflowService.pollWorkflowTaskQueue(poll),
      );
      const { Rejection } = proto.temporal.api.update.v1;
      const refused = messages.map(({ id = null, protocolInstanceId = null }) => ({
        id: `${id}/refused`,
        protocolInstanceId,
        body: {
          type_url: 'type.googleapis.com/temporal.api.update.v1.Rejection',
          value: Rejection.encode({
            rejectedRequestMessageId: id,
            failure: { message: refusal, applicationFailureInfo: { type: 'Refused' } },
          }).finish(),
        },
      }));
      await workflowService.respondWorkflowTaskCompleted({
        namespace: options.namespace,
        taskToken,
        commands: [],
        messages: refusal === null ? [] : refused,
      });
      return messages.length;
    };
    await next(null);
    let asks = 0;
    const answer = updated(server, {
      workflowId: 'p',
      start: () => {
        asks += 1;
        return handle.startUpdate('publish', { args: [{}], waitForStage: 'ACCEPTED' });
      },
    });
    const refused = assert.rejects(answer, (error: Error) =>
      /^no$/.test(String(error.cause && (error.cause as Error).message)),
    );
    assert.equal(await next(null), 1);
    assert.equal(await next('no'), 1);
    await refused;
    assert.equal(asks, 2);
  });

  test('says at once that the server cannot be reached', async () => {
    await server.stop();
    const look = await client.attach('b').look();
    const trouble = `waiting for the Temporal server at ${server.address}: connect ECONNREFUSED ${server.address}`;
    assert.deepEqual(look, { closed: false, progress: null, trouble });
  });
});
