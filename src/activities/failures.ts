import { ApplicationFailure } from '@temporalio/activity';
import { TemporalFailure } from '@temporalio/common';
import { Fault } from '../model/faults.js';
import { describeError } from '../platform/errors.js';
import { plain } from '../platform/plain.js';
import { withoutSecrets } from '../platform/secrets.js';

/**
 * A fault as Temporal's failure: the same type and message, and no details, since the data is in the journal.
 * Anything that is not a fault passes through: cancellation must stay one, and an unknown error is retried, so that a
 * mended worker heals it. Where its text quotes what came from outside, as plain text without this process's secrets.
 */
export function toFailure(error: unknown): unknown {
  if (!(error instanceof Fault)) return asPlain(error);
  const { type, message, retryable, retryAfterMs } = error;
  return ApplicationFailure.create({
    type,
    message,
    nonRetryable: !retryable,
    ...(retryAfterMs !== null && { nextRetryDelay: retryAfterMs }),
  });
}

function asPlain(error: unknown): unknown {
  if (!(error instanceof Error) || error instanceof TemporalFailure) return error;
  const clean = (text: string): string => plain(withoutSecrets(text));
  const [text, stack] = [describeError(error), error.stack ?? ''];
  const message = clean(text);
  if (message === text && clean(stack) === stack) return error;
  const failure = ApplicationFailure.create({ type: error.name, message });
  failure.stack = clean(stack);
  return failure;
}
