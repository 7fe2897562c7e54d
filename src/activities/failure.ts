import { ApplicationFailure, CancelledFailure } from '@temporalio/activity';
import { TemporalFailure } from '@temporalio/common';
import { Fault, isTakenOver } from '../model/faults.js';
import { BACK_AFTER_MS, GaveWay } from './giving-way.js';
import { describeError } from '../platform/errors.js';
import { plain } from '../platform/plain.js';
import { withoutSecrets } from '../platform/secrets.js';

/**
 * A fault as Temporal's failure: the same type and message, without details, since the data is in the journal.
 * Everything else passes through. A cancellation must stay one, and an unknown error is retried, so that a repaired
 * worker heals it. If its text quotes outside text, that text is made plain and loses this process's secrets.
 */
export function toFailure(error: unknown): unknown {
  if (error instanceof GaveWay) {
    const { name: type, message } = error;
    return ApplicationFailure.create({ type, message, nextRetryDelay: BACK_AFTER_MS });
  }
  if (isShutdown(error))
    return ApplicationFailure.create({
      type: 'WorkerShutdown',
      message: 'its worker ends, and another one goes on',
      category: 'BENIGN',
      // Nothing has failed, so nothing has to recover first.
      nextRetryDelay: 1,
    });
  if (!(error instanceof Fault)) return asPlain(error);
  const { type, message, retryable, retryAfterMs } = error;
  return ApplicationFailure.create({
    type,
    message,
    nonRetryable: !retryable,
    // Another attempt has the journal: nothing is wrong, and the log says nothing.
    ...(isTakenOver(error) && { category: 'BENIGN' as const }),
    ...(retryAfterMs !== null && { nextRetryDelay: retryAfterMs }),
  });
}

/** The SDK's reason, in its words. */
const isShutdown = (error: unknown): boolean =>
  error instanceof CancelledFailure && error.message === 'WORKER_SHUTDOWN';

function asPlain(error: unknown): unknown {
  if (!(error instanceof Error) || error instanceof TemporalFailure) return error;
  // A second pass, because an invisible character may interrupt a secret.
  const clean = (text: string): string => withoutSecrets(plain(withoutSecrets(text)));
  const [text, stack] = [describeError(error), error.stack ?? ''];
  const message = clean(text);
  if (message === text && clean(stack) === stack) return error;
  const failure = ApplicationFailure.create({ type: error.name, message });
  failure.stack = clean(stack);
  return failure;
}
