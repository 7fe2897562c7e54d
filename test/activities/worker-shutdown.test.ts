import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { ApplicationFailure } from '@temporalio/common';
import { createRunAttempt } from '../../src/activities/attempt.js';
import { mockAttempt } from '../fakes/activity-bench.js';

describe('the end of its worker', () => {
  test('fails it so that another one begins at once, without a word in the log', async () => {
    const attempt = mockAttempt({});
    const running = attempt.run(
      createRunAttempt({ signalWaiting: () => Promise.resolve() }),
      ({ signal }: { signal: AbortSignal }) =>
        new Promise((_, reject) => {
          signal.addEventListener('abort', () => {
            reject(signal.reason as Error);
          });
        }),
    );
    attempt.cancel('WORKER_SHUTDOWN');
    const failure: unknown = await running.catch((error: unknown) => error);
    assert.ok(failure instanceof ApplicationFailure);
    assert.deepEqual(
      [failure.type, failure.nonRetryable, failure.nextRetryDelay, failure.category],
      ['WorkerShutdown', false, 1, 'BENIGN'],
    );
  });
});
