import { setTimeout as sleep } from 'node:timers/promises';
import { Fault, isStoreFault } from '../../model/faults.js';
import { describeError } from '../../platform/errors.js';
import { waitMs } from '../../platform/waits/clock.js';
import type { Refusal } from '../request/refusals.js';
import { Refused } from '../request/refusals.js';

export interface Patience {
  /** Counts a fault; returns it as it is judged. */
  failed: (fault: Fault) => Promise<unknown>;
  signal: AbortSignal;
  /** Behind the first fault. */
  retry_ms: number;
}

/** Tries until it succeeds. Throws a fault that is final, the signal's reason, or an error that is no fault. */
export async function patiently<T>(
  attempt: () => Promise<T>,
  { failed, signal, retry_ms }: Patience,
): Promise<T> {
  for (let tries = 1; ; tries++) {
    try {
      return await attempt();
    } catch (error) {
      if (!(error instanceof Fault) || signal.aborted || isStoreFault(error)) throw error;
      const counted = await failed(error);
      const fault = counted instanceof Fault ? counted : error;
      if (!fault.retryable) throw fault;
      const wait = Math.max(waitMs(tries, { first_ms: retry_ms }), fault.retryAfterMs ?? 0);
      await sleep(wait, undefined, { signal });
    }
  }
}

/** A final fault. Agents are other people's programs. */
const engineFailed = (fault: Fault): Refusal => ({
  status: 500,
  code: 'generation_failed',
  message: `the policy's engine did not answer this call (${fault.type}): ${withoutPlace(fault)}`,
});

/** Its message names no address. */
export const withoutPlace = ({ message, at }: Fault): string =>
  at === null ? message : message.replaceAll(at, 'the engine');

export const tooLong = (ms: number): Refusal => ({
  status: 503,
  code: 'call_timeout',
  message: `no answer within ${Math.round(ms / 1000)} s: ask again, and the answer continues`,
});

export const ended = (why: 'over' | 'moved'): Refusal =>
  why === 'over'
    ? { status: 410, code: 'rollout_ended', message: 'this rollout has ended: end the program' }
    : {
        status: 503,
        code: 'rollout_moves',
        message: 'this rollout is between two attempts: ask again',
      };

export const gatewayFailed = (error: unknown): Refusal => ({
  status: 500,
  code: 'gateway_failed',
  message: `the gateway could not answer: ${describeError(error)}`,
});

export function refusalIn(error: unknown): Refusal {
  if (error instanceof Refused) return error.refusal;
  return error instanceof Fault ? engineFailed(error) : gatewayFailed(error);
}
