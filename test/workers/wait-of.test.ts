/** What only the server knows of a workflow's wait. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { Client, WorkflowExecutionDescription } from '@temporalio/client';
import { waitOfDescribed } from '../../src/workers/wait-of.js';

/** The queues that the server was asked about. */
const asked: string[] = [];

/** A server whose queue `polled` has a worker. */
const server = {
  options: { namespace: 'default' },
  workflowService: {
    describeTaskQueue: ({ taskQueue }: { taskQueue: { name: string } }) => {
      asked.push(taskQueue.name);
      return Promise.resolve({
        stats: { approximateBacklogCount: 16 },
        pollers:
          taskQueue.name === 'polled'
            ? [{ lastAccessTime: { seconds: Math.floor(Date.now() / 1000) } }]
            : [],
      });
    },
    listWorkers: () => Promise.reject(new Error('unimplemented')),
  },
} as unknown as Client;

const wait = (pendingActivities: object[], { name = 'RUNNING', slots = false } = {}) =>
  waitOfDescribed(
    {
      status: { name },
      workflowId: 'b/0-0',
      raw: { pendingActivities },
    } as unknown as WorkflowExecutionDescription,
    { client: server, slots },
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

test('an activity that waits for a slot names the queue, how many wait there, and what makes slots', async () => {
  const waiting = await wait([scheduled('polled')], { slots: true });
  assert.equal(waiting?.service, 'a slot of task queue polled');
  assert.match(waiting.message, /^16 tasks wait, .*max_concurrent/);
});

test('a paused activity and a paused workflow wait for an operator, with the command that ends the pause', async () => {
  const activity = await wait([{ ...scheduled('polled'), state: 4, activityId: '7' }]);
  assert.match(
    activity?.message ?? '',
    /temporal activity unpause --workflow-id b\/0-0 --activity-id 7 /,
  );
  assert.match(
    (await wait([], { name: 'PAUSED' }))?.message ?? '',
    /temporal workflow unpause --workflow-id b\/0-0 /,
  );
});
