import { ApplicationFailure, TemporalFailure } from '@temporalio/common';
import { Fault } from '../model/faults.js';
import { describeError } from '../platform/errors.js';
import { plainLine } from '../platform/plain.js';
import { withoutSecrets } from '../platform/secrets.js';
import { cut } from '../platform/utf8.js';

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
  // A second pass, because an invisible character may interrupt a secret.
  const said = withoutSecrets(plainLine(`${error.name}: ${describeError(error)}`));
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
  const message = `${said} (the same in ${bug.times} attempts: a bug of this program; please report it with the worker's log, and start the id again once it is mended)`;
  const final = ApplicationFailure.create({ type, message, nonRetryable: true });
  if (failure instanceof Error && failure.stack !== undefined) final.stack = failure.stack;
  return final;
}
