import assert from 'node:assert/strict';
import { Fault } from '../../src/model/faults.js';

/** The fault that a promise rejects with. */
export async function faultOf(promise: Promise<unknown>): Promise<Fault> {
  const error: unknown = await promise.then(
    (answer) => assert.fail(`expected a fault, got ${JSON.stringify(answer)}`),
    (reason: unknown) => reason,
  );
  assert.ok(error instanceof Fault, String(error));
  return error;
}

/** The same, as `type: message`. */
export async function faultText(promise: Promise<unknown>): Promise<string> {
  const { type, message } = await faultOf(promise);
  return `${type}: ${message}`;
}
