import { ApplicationFailure, CancelledFailure } from '@temporalio/activity';
import { TemporalFailure } from '@temporalio/common';
import { Fault, isTakenOver } from '../model/faults.js';
import { BACK_AFTER_MS, GaveWay } from './giving-way.js';
import { describeError } from '../platform/errors.js';
import { plain, plainLine } from '../platform/plain.js';
import { withoutSecrets } from '../platform/secrets.js';
import { cut } from '../platform/utf8.js';

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
  // The SDK's reason, in its words.
  if (error instanceof CancelledFailure && error.message === 'WORKER_SHUTDOWN')
    return ApplicationFailure.create({
      type: 'WorkerShutdown',
      message: 'its worker stops, and another one continues',
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

/** A second pass, because an invisible character may interrupt a secret. */
const clean = (text: string, plainly = plain): string =>
  withoutSecrets(plainly(withoutSecrets(text)));

function asPlain(error: unknown): unknown {
  if (!(error instanceof Error) || error instanceof TemporalFailure) return error;
  const [text, stack] = [describeError(error), error.stack ?? ''];
  const message = clean(text);
  if (message === text && clean(stack) === stack) return error;
  const failure = ApplicationFailure.create({ type: error.name, message });
  failure.stack = clean(stack);
  return failure;
}

/** An error of this program's own code, as heartbeats keep it from attempt to attempt. */
export interface Bug {
  /** Type and message. */
  text: string;
  /** How many attempts in a row failed so. */
  times: number;
}

/** A fourth attempt would fail in the same way, whatever else is repaired. */
const MOST_TIMES = 3;
const MOST_OF_TEXT = 500;

/**
 * The bug that this error shows, counted after the last attempt's; null: it is a fault, a cancellation, or an error of
 * the system (it has a code), which may pass.
 */
export function bugIn(error: unknown, before: Bug | null): Bug | null {
  if (!(error instanceof Error) || error instanceof Fault || error instanceof TemporalFailure)
    return null;
  if (comesFromSystem(error)) return null;
  const said = clean(`${error.name}: ${describeError(error)}`, plainLine);
  const text = cut(said, MOST_OF_TEXT);
  return { text, times: before?.text === text ? before.times + 1 : 1 };
}

/** Errors of files, sockets and databases, and what wraps them. */
function comesFromSystem(error: Error): boolean {
  for (let cause: unknown = error, depth = 0; depth < 4 && cause instanceof Error; depth++) {
    if ('code' in cause || 'syscall' in cause || cause.name === 'AbortError') return true;
    cause = cause.cause;
  }
  return false;
}

/** Ends the activity, and with it what it belongs to; else the failure as it is: another attempt may succeed. */
export function finalFailure(failure: unknown, bug: Bug | null): unknown {
  if (bug === null || bug.times < MOST_TIMES) return failure;
  const at = bug.text.indexOf(': ');
  const [type, said] = [bug.text.slice(0, at), bug.text.slice(at + 2)];
  const message = `${said} (the same in ${bug.times} attempts, so it is a bug of this program. Please report it with the worker's log, and start the id again with a repaired version)`;
  const final = ApplicationFailure.create({ type, message, nonRetryable: true });
  if (failure instanceof Error && failure.stack !== undefined) final.stack = failure.stack;
  return final;
}
