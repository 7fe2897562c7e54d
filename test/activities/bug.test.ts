import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { ApplicationFailure } from '@temporalio/common';
import { createRunAttempt } from '../../src/activities/attempt.js';
import { Fault } from '../../src/model/faults.js';
import type { Waiting } from '../../src/model/results/answers.js';
import { keepSecret } from '../../src/platform/secrets.js';
import { mockAttempt } from '../fakes/activity-bench.js';

const away = () => new Fault({ type: 'GenerationUnavailable', message: 'connection refused' });

describe('an error of our own code', () => {
  const told: (Waiting | null)[] = [];
  const runAttempt = createRunAttempt({
    signalWaiting: (_, waiting) => {
      told.push(waiting);
      return Promise.resolve();
    },
  });
  /** What attempts that throw these errors, one after the other, fail with. */
  const failuresOf = async (...errors: unknown[]): Promise<unknown[]> => {
    const failures: unknown[] = [];
    let heartbeatDetails: unknown;
    for (const [at, error] of errors.entries()) {
      const attempt = mockAttempt({ heartbeatDetails, number: at + 1 });
      attempt.on('heartbeat', (details: unknown) => (heartbeatDetails = structuredClone(details)));
      const body = (): Promise<never> => {
        throw error;
      };
      failures.push(await attempt.run(() => runAttempt(body)).catch((thrown: unknown) => thrown));
    }
    return failures;
  };
  const isFinal = (failure: unknown): boolean =>
    failure instanceof ApplicationFailure && failure.nonRetryable === true;
  const overflow = () => new RangeError('Maximum call stack size exceeded');

  test('is told at once, and ends its activity when it comes three times in the same way', async () => {
    told.length = 0;
    const failures = await failuresOf(overflow(), overflow(), overflow());
    assert.deepEqual(failures.map(isFinal), [false, false, true]);
    const last = failures.at(-1) as ApplicationFailure;
    assert.equal(last.type, 'RangeError');
    assert.match(
      last.message,
      /^Maximum call stack size exceeded \(the same in 3 attempts, so it is a bug of this program\. Please report it/,
    );
    assert.match(last.stack ?? '', /bug\.test\.ts/);
    const [{ service, message } = assert.fail()] = told.map((one) => one ?? undefined);
    assert.equal(service, 'a repaired worker');
    assert.equal(message, 'RangeError: Maximum call stack size exceeded');
  });

  test('is tried again while it changes, or where it comes from the system, the store or a cancellation', async () => {
    const busy = (cause: unknown) => new TypeError('fetch failed', { cause });
    const system = () => Object.assign(new Error('read ECONNRESET'), { code: 'ECONNRESET' });
    for (const errors of [
      [overflow(), new TypeError('x is not a function'), overflow(), overflow()],
      [system(), system(), system(), system()],
      [busy(system()), busy(system()), busy(system())],
      [away(), away(), away(), away()],
      ['text', 'text', 'text'],
      [1, 2, 3].map(() => new DOMException('This operation was aborted', 'AbortError')),
      [1, 2, 3].map(() => ApplicationFailure.create({ type: 'Other', message: 'own' })),
    ])
      assert.deepEqual(
        (await failuresOf(...errors)).map(isFinal),
        errors.map(() => false),
        String(errors[0]),
      );
  });

  test('loses its secrets before it is told', async () => {
    keepSecret('sk-of-a-bug-0123456789');
    const error = () => new TypeError('sk-of-a-bug-0123\u200d456789 is no header');
    const failures = await failuresOf(error(), error(), error());
    assert.match((failures.at(-1) as ApplicationFailure).message, /^\[secret\] is no header/);
    assert.doesNotMatch(JSON.stringify(told), /sk-of-a-bug/);
  });
});
