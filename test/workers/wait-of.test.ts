/** What only the server knows of a workflow's wait. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { Client, WorkflowExecutionDescription } from '@temporalio/client';
import { waitOfDescribed } from '../../src/workers/wait-of.js';

const NOW_S = Math.floor(Date.now() / 1000);

/** The queues that the server was asked about. */
const asked: string[] = [];

/** A server whose queue `polled` has a worker. */
const server = {
  options: { namespace: 'default' },
  workflowService: {
    describeTaskQueue: ({ taskQueue }: { taskQueue: { name: string } }) => {
      asked.push(taskQueue.name);
      return Promise.resolve({
        pollers: taskQueue.name === 'polled' ? [{ lastAccessTime: { seconds: NOW_S } }] : [],
      });
    },
    listWorkers: () => Promise.reject(new Error('unimplemented')),
  },
} as unknown as Client;

const wait = (pendingActivities: object[], name = 'RUNNING') =>
  waitOfDescribed(
    {
      status: { name },
      workflowId: 'b/0-0',
      raw: { pendingActivities },
    } as unknown as WorkflowExecutionDescription,
    server,
  );

const scheduled = (queue: string) => ({
  state: 1,
  activityOptions: { taskQueue: { name: queue } },
});

test('an activity in a task queue that nobody polls waits for a worker of it, by name', async () => {
  assert.equal(await wait([scheduled('polled')]), null);
  assert.equal((await wait([scheduled('lonely')]))?.service, 'a worker of task queue lonely');
  assert.equal(await wait([{ ...scheduled('lonely'), state: 2 }]), null, 'it runs');
});

test('each queue is asked about once, however many activities wait in it', async () => {
  asked.length = 0;
  assert.equal(await wait(Array.from({ length: 100 }, () => scheduled('polled'))), null);
  assert.deepEqual(asked, ['polled']);
});

test('a paused activity and a paused workflow wait for an operator, with the command that ends the pause', async () => {
  const activity = await wait([{ ...scheduled('polled'), state: 4, activityId: '7' }]);
  assert.match(
    activity?.message ?? '',
    /temporal activity unpause --workflow-id b\/0-0 --activity-id 7 /,
  );
  assert.match(
    (await wait([], 'PAUSED'))?.message ?? '',
    /temporal workflow unpause --workflow-id b\/0-0 /,
  );
});
