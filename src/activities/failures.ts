import { ApplicationFailure } from '@temporalio/activity';
import { Fault } from '../model/faults.js';

/**
 * A fault as Temporal's failure: the same type and message, and no details, since the data is in the journal.
 * Anything that is not a fault passes through: cancellation must stay one, and an unknown error is retried, so that a
 * mended worker heals it.
 */
export function toFailure(error: unknown): unknown {
  if (!(error instanceof Fault)) return error;
  const { type, message, retryable, retryAfterMs } = error;
  return ApplicationFailure.create({
    type,
    message,
    nonRetryable: !retryable,
    ...(retryAfterMs !== null && { nextRetryDelay: retryAfterMs }),
  });
}
