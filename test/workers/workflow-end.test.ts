/** How a workflow ended, as the closing pass asks it of Temporal. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { Client } from '@temporalio/client';
import { WorkflowFailedError, WorkflowNotFoundError } from '@temporalio/client';
import { ApplicationFailure, RetryState } from '@temporalio/common';
import { pino } from 'pino';
import type { PolicyWorkflows } from '../../src/workers/policies.js';
import { askTemporal } from '../../src/workers/dependencies.js';

/** A client of a server that knows one workflow. */
function endOf(known: { status: string; failure?: Error }) {
  const getHandle = (id: string) => ({
    describe: () => {
      if (id !== 'b/0-0') throw new WorkflowNotFoundError('none', id, undefined);
      return Promise.resolve({ status: { name: known.status } });
    },
    result: () => {
      assert.equal(known.status, 'FAILED', 'any other one would be waited for');
      const { failure } = known;
      return Promise.reject(
        new WorkflowFailedError('failed', failure, RetryState.NON_RETRYABLE_FAILURE),
      );
    },
  });
  const client = { workflow: { getHandle } } as unknown as Client;
  const policies = {} as PolicyWorkflows;
  return askTemporal(client, { policies, log: pino({ level: 'silent' }) }).endOf;
}

test('a workflow that completed says so, one that failed says why, and all others say nothing', async () => {
  assert.equal(await endOf({ status: 'COMPLETED' })('b/0-0'), 'completed');
  const failure = ApplicationFailure.nonRetryable('no such model', 'GenerationRejected');
  assert.deepEqual(await endOf({ status: 'FAILED', failure })('b/0-0'), {
    type: 'GenerationRejected',
    message: 'no such model',
  });
  for (const status of ['RUNNING', 'CANCELLED', 'TERMINATED', 'TIMED_OUT', 'CONTINUED_AS_NEW'])
    assert.equal(await endOf({ status })('b/0-0'), null, status);
  assert.equal(await endOf({ status: 'COMPLETED' })('b/0-1'), null);
});
