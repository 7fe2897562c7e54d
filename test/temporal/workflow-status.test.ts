/** What the server's statuses mean. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { isOpen, whyDelayed, whyPaused } from '../../src/temporal/workflow-status.js';

const of = (name: string) => ({ status: { name }, workflowId: 'b' });

test('a workflow is open until its status says that it has ended, also with a status of a newer server', () => {
  for (const name of ['RUNNING', 'PAUSED', 'UNKNOWN'] as const)
    assert.equal(isOpen(of(name)), true, name);
  for (const name of [
    'COMPLETED',
    'FAILED',
    'CANCELLED',
    'TERMINATED',
    'TIMED_OUT',
    'CONTINUED_AS_NEW',
  ] as const)
    assert.equal(isOpen(of(name)), false, name);
});

test('a pause and a delayed start are said with what comes next', () => {
  assert.equal(whyPaused(of('RUNNING')), null);
  assert.match(
    whyPaused(of('PAUSED')) ?? '',
    /^b is paused; temporal workflow unpause --workflow-id b /,
  );
  const executionTime = new Date(Date.now() + 60_000);
  const time = executionTime.toISOString().slice(0, 19).replace('T', ' ');
  assert.equal(
    whyDelayed({ workflowId: 'b', executionTime }),
    `b begins at ${time} UTC: its start is delayed`,
  );
  assert.equal(whyDelayed({ workflowId: 'b', executionTime: new Date(0) }), null);
});
