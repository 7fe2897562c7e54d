/** Rollouts whose workflow tasks fail: on a real server, where a worker of a script fails them, and with its clock. */
import assert from 'node:assert/strict';
import { after, before, describe, test } from 'node:test';
import { onLoopback, openServer } from '../../src/client/server.js';
import { endStuck } from '../../src/workers/stuck.js';
import type { OwnServer } from '../../lab/bed/server.js';
import { startLoneServer } from '../../lab/bed/stack.js';
import { eventually, PATIENCE_MS } from '../../lab/bed/waiting.js';

const HOUR_MS = 3_600_000;

describe('a rollout whose workflow task fails', () => {
  let server: OwnServer;
  before(async () => {
    server = await startLoneServer('stuck');
  });
  after(() => server.stop());

  test('is said in the log, and terminated after an hour; others, and one started by hand, are left alone', async () => {
    const { client, within, close } = openServer(onLoopback(server));
    const { workflowService, connection, options } = server.client;
    const { namespace } = options;
    const started = ['b/0-0', 'by-hand', 'b/healthy'];
    for (const [at, workflowId] of started.entries())
      await client.workflow.start('rollout', { workflowId, taskQueue: `q${at}` });
    const place = { namespace, identity: 'failing' };
    for (const name of ['q0', 'q1'])
      for (let time = 0; time < 5; time++) {
        const { taskToken } = await connection.withDeadline(Date.now() + PATIENCE_MS, () =>
          workflowService.pollWorkflowTaskQueue({ ...place, taskQueue: { name } }),
        );
        const failure = { message: 'TypeError: a bug' };
        await workflowService.respondWorkflowTaskFailed({ namespace, taskToken, failure });
      }
    const said: unknown[] = [];
    const log = { error: (...line: unknown[]) => said.push(line) };
    let looks = 0;
    const attributes = { look: () => Promise.resolve(void (looks += 1)) };
    const look = async (now_ms: number): Promise<void> => {
      for (const queue of ['q0', 'q1', 'q2'])
        await within(PATIENCE_MS, () =>
          endStuck(client, { task_queue: queue, log, attributes, now_ms }),
        );
    };
    const statusOf = async (id: string) =>
      (await client.workflow.getHandle(id).describe()).status.name;
    await eventually('the failing task in the log', async () => {
      await look(Date.now());
      return said.length > 0;
    });
    const [fields, message] = said[0] as [object, string];
    assert.deepEqual(fields, { workflow_id: 'b/0-0' });
    assert.match(message, /^the workflow task of b\/0-0 fails \(\d+ tries\): TypeError: a bug\. /);
    assert.equal(await statusOf('b/0-0'), 'RUNNING', 'a worker may be repaired');
    await look(Date.now() + HOUR_MS + 60_000);
    assert.deepEqual(await Promise.all(started.map(statusOf)), [
      'TERMINATED',
      'RUNNING',
      'RUNNING',
    ]);
    await close();
  });
});
