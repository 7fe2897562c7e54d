import { condition, isCancellation } from '@temporalio/workflow';
import type { SetLimits } from '../../activities/contract.js';
import type { Limits } from '../../model/workflow-safe/limits.js';
import { setLimits } from '../activity-options.js';
import { failWith, failureOf } from '../ending.js';

/**
 * Puts changed limits into the store, where the attempts that play find them within a second, one change after the other.
 * `isClosed`: what they concern ends, and nobody waits for the store. Throws `refusal` then.
 */
export function announceLimits(
  isClosed: () => boolean,
  refusal: () => Error,
): (order: SetLimits) => Promise<Limits | null> {
  let last: Promise<unknown> = Promise.resolve();
  return async (order) => {
    const put = last.then(() => setLimits(order));
    last = put.catch(() => undefined);
    const closed = condition(isClosed).then(() => {
      throw refusal();
    });
    try {
      const inForce = await Promise.race([put, closed]);
      if (isClosed()) throw refusal();
      return inForce;
    } catch (error) {
      if (isClosed() || isCancellation(error)) throw refusal();
      throw failWith(failureOf(error));
    }
  };
}
