import {
  ActivityFailure,
  ApplicationFailure,
  CancellationScope,
  CancelledFailure,
  ContinueAsNew,
  TimeoutFailure,
  isCancellation,
  sleep,
} from '@temporalio/workflow';
import type { FailureFacts, FinishRollout } from '../activities/contract.js';
import { plain, plainLine } from '../platform/plain.js';

export type Ending = Pick<FinishRollout, 'stop_reason' | 'failure'>;

export interface EndedBy {
  /** Takes what stops the rollout. */
  onStop: (stop: () => void) => void;
  /** Its workflow goes on after it, so its timer must not. */
  in_slice: boolean;
}

/**
 * Runs a rollout's body until it is done or something ends it: a stop, cancellation, a fault, or the deadline, of which
 * the body says how much time is left whenever that changes (null: no limit). The first reason counts, and nobody waits
 * for what the cancelled activity then reports: it may hear of it a minute later, or be on a dead worker. Whoever finishes
 * the rollout claims its journal, so that this activity writes nothing more. A body may also continue in a new run.
 * Returns the body's result, or, if that is null, why the rollout must be finished.
 */
export async function untilEnd<T extends object>(
  body: (limitTo: (left_ms: number | null) => void) => Promise<T | null>,
  { onStop, in_slice }: EndedBy,
): Promise<T | Ending> {
  const scope = new CancellationScope();
  const noted: { reason: 'timeout' | 'stopped' | 'cancelled' | null } = { reason: null };
  const end = (reason: 'timeout' | 'stopped'): void => {
    noted.reason ??= reason;
    scope.cancel();
  };
  onStop(() => {
    end('stopped');
  });
  let isOver = false;
  const cancelled = new Promise<never>((_, reject) => {
    scope.cancelRequested.catch(() => {
      noted.reason ??= 'cancelled';
      if (!isOver) reject(new CancelledFailure('ended'));
    });
  });
  let timer: CancellationScope | null = null;
  const limitTo = (left_ms: number | null): void => {
    timer?.cancel();
    timer = null;
    if (left_ms === null) return;
    timer = new CancellationScope();
    const wait = (): Promise<void> => sleep(left_ms, { summary: 'rollout_timeout' });
    timer.run(wait).then(
      () => {
        end('timeout');
      },
      () => undefined,
    );
  };
  try {
    const done = scope.run(() => body(limitTo));
    return (await Promise.race([done, cancelled])) ?? { stop_reason: null, failure: null };
  } catch (error) {
    if (error instanceof ContinueAsNew) throw error;
    if (noted.reason !== null) return { stop_reason: noted.reason, failure: null };
    if (isCancellation(error)) return { stop_reason: 'cancelled', failure: null };
    const failure = failureOf(error);
    return { stop_reason: failure.type === 'TimedOut' ? 'timeout' : 'failed', failure };
  } finally {
    isOver = true;
    if (in_slice) limitTo(null);
  }
}

const UNSAID = 'failed from outside, without a reason';
const UNTAKEN = 'rollout_timeout passed before a worker took the rollout from its task queue';

/** The activity's own fault, without the failures that wrap it. */
export function failureOf(error: unknown): FailureFacts {
  const cause = error instanceof ActivityFailure ? error.cause : error;
  if (cause instanceof ApplicationFailure) {
    // An operator may fail an activity without a word.
    return { type: cause.type || 'Error', message: cause.message || UNSAID };
  }
  if (cause instanceof TimeoutFailure && cause.timeoutType === 'SCHEDULE_TO_START')
    return { type: 'TimedOut', message: UNTAKEN };
  if (cause instanceof Error) return { type: cause.name, message: cause.message };
  return { type: 'Error', message: String(cause) };
}

/**
 * Fails the workflow (red in the Web UI) with the fault's own type and message. The data is in the journal. `result`:
 * what the workflow would have returned.
 */
export const failWith = (
  { type, message }: FailureFacts,
  ...result: object[]
): ApplicationFailure =>
  ApplicationFailure.nonRetryable(plain(message), plainLine(type), ...result);

/** For validators: `problem` is the problem, or null. */
export function refuse(problem: string | null): void {
  if (problem !== null) throw refusal(problem);
}

export const refusal = (message: string): Error => failWith({ type: 'UpdateRefused', message });
