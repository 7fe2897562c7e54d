import { ApplicationFailure } from '@temporalio/activity';
import { Fault } from '../model/faults.js';
import { withoutSecrets } from '../platform/secrets.js';

/**
 * A fault as Temporal's failure: the same type and message, and no details, since the data is in the journal.
 * Anything that is not a fault passes through, without this process's secrets: cancellation must stay one, and an
 * unknown error is retried, so that a mended worker heals it.
 */
export function toFailure(error: unknown): unknown {
  if (!(error instanceof Fault)) return withoutSecretsIn(error);
  const { type, message, retryable, retryAfterMs } = error;
  return ApplicationFailure.create({
    type,
    message,
    nonRetryable: !retryable,
    ...(retryAfterMs !== null && { nextRetryDelay: retryAfterMs }),
  });
}

/** The same error where it holds none; Temporal writes message, stack and causes into history. */
function withoutSecretsIn(error: unknown): unknown {
  if (!(error instanceof Error)) return error;
  const texts = [error.message, error.stack ?? ''];
  const cleaned = texts.map(withoutSecrets);
  const cause = error.cause === undefined ? undefined : withoutSecretsIn(error.cause);
  if (texts.every((text, i) => text === cleaned[i]) && cause === error.cause) return error;
  const [message, stack] = cleaned;
  const { name } = error;
  return Object.assign(new Error(message, { cause }), { name, stack });
}
