/** Open workflows that cannot go on by themselves. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { Client } from '@temporalio/client';
import { checkWorkflows } from '../../src/workers/check/check-temporal.js';

const described = (workflowId: string, { name = 'RUNNING', attempt = 1 } = {}) => ({
  workflowId,
  status: { name },
  raw: {
    pendingWorkflowTask: { attempt },
    workflowExecutionInfo: { execution: { workflowId } },
  },
});
const failed = { workflowTaskFailedEventAttributes: { failure: { message: 'Nondeterminism' } } };
const late = { workflowTaskTimedOutEventAttributes: {} };

/** A server with these open workflows; it counts what it is asked. */
function serverWith(
  open: ReturnType<typeof described>[],
  event: object = failed,
): { client: Client; asked: string[] } {
  const asked: string[] = [];
  const list = async function* ({ query }: { query: string }) {
    assert.match(query, /^TaskQueue = 'rollouts' AND .* AND CloseTime IS NULL$/);
    yield* await Promise.resolve(open.map(({ workflowId }) => ({ workflowId, runId: 'r' })));
  };
  const getHandle = (id: string) => ({
    describe: () => {
      asked.push(id);
      return Promise.resolve(open.find(({ workflowId }) => workflowId === id));
    },
  });
  const workflowService = {
    getWorkflowExecutionHistoryReverse: () => Promise.resolve({ history: { events: [event] } }),
  };
  const client = { options: { namespace: 'n' }, workflow: { list, getHandle }, workflowService };
  return { client: client as unknown as Client, asked };
}

test('one whose workflow task fails is broken, and a paused one limited, each with what helps', async () => {
  const { client } = serverWith([
    described('fine'),
    described('b', { attempt: 9 }),
    described('p', { name: 'PAUSED' }),
  ]);
  const [broken, limited, ...more] = await checkWorkflows(client, 'rollouts');
  assert.deepEqual(more, []);
  assert.deepEqual([broken?.part, broken?.state], ['workflow b', 'broken']);
  assert.match(
    broken?.what ?? '',
    /fails \(9 tries\): Nondeterminism\. A repaired worker .* start its id again, which continues/,
  );
  assert.deepEqual([limited?.part, limited?.state], ['workflow p', 'limited']);
  assert.match(limited?.what ?? '', /temporal workflow unpause --workflow-id p /);
});

test('one whose worker hangs sends the reader to the worker, and does not ask for a repair', async () => {
  const { client } = serverWith([described('b', { attempt: 3 })], late);
  const [broken] = await checkWorkflows(client, 'rollouts');
  assert.equal(
    broken?.what,
    'the workflow task of b fails (3 tries): no worker completes it in time. The worker hangs, or has too little CPU: temporal-rollout check names it. Another worker continues the workflow',
  );
});

test('of many only the first twenty are asked', async () => {
  const { client, asked } = serverWith(Array.from({ length: 40 }, (_, i) => described(`w-${i}`)));
  assert.deepEqual(await checkWorkflows(client, 'rollouts'), []);
  assert.equal(asked.length, 20);
});
