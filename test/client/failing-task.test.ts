/** A workflow whose task fails again and again, on a real server: a worker of a script fails it. */
import assert from 'node:assert/strict';
import { after, before, describe, test } from 'node:test';
import type { BatchClient } from '../../src/client/batch-client.js';
import { openBatchClient } from '../../src/client/batch-client.js';
import { onLoopback } from '../../src/client/server.js';
import { connectStream } from '../../src/client/stream-client.js';
import type { OwnServer } from '../../lab/bed/server.js';
import { startLoneServer } from '../../lab/bed/stack.js';
import { operatorOf, taskAt } from '../../lab/bed/operator.js';
import { PATIENCE_MS } from '../../lab/bed/waiting.js';

describe('a workflow whose task fails', { concurrency: 4 }, () => {
  let server: OwnServer;
  let client: BatchClient;
  before(async () => {
    server = await startLoneServer('failing-task');
    client = openBatchClient(onLoopback(server));
  });
  after(async () => {
    await client.close();
    await server.stop();
  });

  const nextTask = async (queue: string): Promise<Uint8Array> => {
    const { workflowService, connection } = server.client;
    const place = { namespace: server.namespace, taskQueue: { name: queue }, identity: 'failing' };
    const { taskToken } = await connection.withDeadline(Date.now() + PATIENCE_MS, () =>
      workflowService.pollWorkflowTaskQueue(place),
    );
    return taskToken;
  };
  const completeTask = async (taskToken: Uint8Array): Promise<void> => {
    const {
      namespace,
      client: { workflowService },
    } = server;
    await workflowService.respondWorkflowTaskCompleted({ namespace, taskToken, commands: [] });
  };
  /** Takes the next workflow task of the queue and fails it. */
  const failTask = async (queue: string, message: string): Promise<void> => {
    const {
      namespace,
      client: { workflowService },
    } = server;
    const taskToken = await nextTask(queue);
    await workflowService.respondWorkflowTaskFailed({ namespace, taskToken, failure: { message } });
  };

  test('is said with its reason and the next step once it has failed several times, and not before', async () => {
    await server.client.workflow.start('rolloutBatch', { workflowId: 'b', taskQueue: 'q' });
    await failTask('q', 'TypeError: once');
    const { trouble } = await client.attach('b').look();
    assert.doesNotMatch(trouble ?? '', /once/);
    for (let time = 0; time < 2; time++) await failTask('q', 'TypeError: again');
    const look = await client.attach('b').look();
    assert.deepEqual([look.closed, look.progress], [false, null]);
    assert.match(
      look.trouble ?? '',
      /^the workflow task of b fails \(\d tries\): TypeError: (once|again)\. A repaired worker continues it\. Or end it \(temporal workflow terminate\) and start its id again, which continues from the store$/,
    );
  });

  test('is said where a pause has lost it, and a reset continues it', async () => {
    const { workflow } = server.client;
    const handle = await workflow.start('rolloutBatch', { workflowId: 'lost', taskQueue: 'l' });
    const signalled = await nextTask('l');
    await completeTask(signalled);
    // Its task is scheduled, and no worker takes it before the pause.
    await handle.signal('stop');
    const said = async (): Promise<string> => (await client.attach('lost').look()).trouble ?? '';
    assert.doesNotMatch(await said(), /lost/);
    const operator = operatorOf(server);
    await operator.pause('lost');
    assert.match(await said(), /^lost is paused; /);
    const {
      namespace,
      client: { workflowService },
    } = server;
    await workflowService.unpauseWorkflowExecution({ namespace, workflowId: 'lost' });
    assert.equal(
      await said(),
      'the workflow task of lost was lost in a pause; temporal workflow reset --workflow-id lost --type LastWorkflowTask --reason pause continues it',
    );
    await operator.reset('lost', taskAt(1));
    await completeTask(await nextTask('l'));
    assert.doesNotMatch(await said(), /was lost/);
  });

  test('is said of a stream, too', async () => {
    await server.client.workflow.start('rolloutStream', { workflowId: 's', taskQueue: 'r' });
    for (let time = 0; time < 3; time++) await failTask('r', 'no such function');
    const stream = await connectStream(onLoopback(server), 's');
    await assert.rejects(
      stream.look(),
      /^Error: the workflow task of s fails \(\d tries\): no such/,
    );
    await stream.close();
  });
});
