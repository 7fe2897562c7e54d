import { ApplicationFailure, Context } from '@temporalio/activity';
import { TemporalFailure } from '@temporalio/common';
import type { FaultType } from '../model/faults.js';
import { Fault } from '../model/faults.js';
import { timeText } from '../model/workflow-safe/waiting.js';
import { SILENT_S } from '../model/standing.js';
import type { Waiting } from './contract.js';
import { describeError } from '../platform/errors.js';
import { plain } from '../platform/plain.js';
import { withoutSecrets } from '../platform/secrets.js';

/** What an activity's body is given of the attempt that runs it. */
export interface Attempt {
  workflow_id: string;
  /** 1 for the first. */
  number: number;
  /** Aborts on cancellation, worker shutdown and lost heartbeats, with the reason to throw. */
  signal: AbortSignal;
  /**
   * Seconds from the time that the activity was first scheduled to this attempt: on the server's clock alone, since
   * this machine's may be another.
   */
  waited_s: number;
  /** Where a predecessor stood; set it to where this attempt stands. */
  checkpoint: unknown;
  /** Tells the workflow that this attempt waits for a service, or, with null, that nothing is waited for any more. */
  sayWaiting: (waiting: Waiting | null) => Promise<void>;
  /** Asks somebody, and tells the workflow while no answer, and nothing of one, comes. */
  asks: <T>(asked: Asked, answer: () => Promise<T>) => Promise<T>;
  /** Into the worker's log. */
  warn: (message: string) => void;
}

export interface Asked {
  /** By name, as `Waiting` has it. */
  call: string;
  /** When something of the answer came last, in seconds since 1970; null: nothing has. */
  moved_at: () => number | null;
}

export interface AttemptDependencies {
  /** Tells the attempt's own workflow that it waits for a service; best effort. */
  signalWaiting: (
    to: { workflow_id: string; run_id: string },
    waiting: Waiting | null,
  ) => Promise<void>;
  /** Without an answer, before that is told. */
  silent_ms?: number;
}

interface HeartbeatDetails {
  /** How often it had been tried when the workflow was told last; 0: it is told of nothing. */
  waiting: number;
  since: number | null;
  checkpoint: unknown;
}

/** Nobody has failed yet: the first that does is news. */
const NO_TRY = 0.5;

/** Of an activity that was scheduled without a heartbeat timeout. A third: one beat may be lost, and each costs half a millisecond. */
const DEFAULT_HEARTBEAT_MS = 10_000;

export type RunAttempt = <T>(body: (attempt: Attempt) => Promise<T>) => Promise<T>;

/**
 * Runs an activity's body with a heartbeat on a timer (a stream may be silent for minutes), turns faults into
 * failures, and makes an absent engine visible: the first attempt that has to wait signals its workflow, again when twice
 * as many have, and the one that succeeds says that it is over: a day of tries every 15 s is 14 signals. Heartbeat details
 * carry that memory from attempt to attempt.
 */
export function createRunAttempt({
  signalWaiting,
  silent_ms = SILENT_S * 1000,
}: AttemptDependencies): RunAttempt {
  return async (body) => {
    const context = Context.current();
    const { info } = context;
    const before = info.heartbeatDetails as Partial<HeartbeatDetails> | undefined;
    const details: HeartbeatDetails = {
      waiting: before?.waiting ?? 0,
      since: before?.since ?? null,
      checkpoint: before?.checkpoint ?? null,
    };
    const workflow = {
      workflow_id: info.workflowExecution?.workflowId ?? '',
      run_id: info.workflowExecution?.runId ?? '',
    };
    const sayWaiting = sayer(details, (waiting) => signalWaiting(workflow, waiting));
    const attempt: Attempt = {
      workflow_id: workflow.workflow_id,
      number: info.attempt,
      signal: context.cancellationSignal,
      waited_s: (info.currentAttemptScheduledTimestampMs - info.scheduledTimestampMs) / 1000,
      get checkpoint() {
        return details.checkpoint;
      },
      set checkpoint(value) {
        details.checkpoint = value;
      },
      sayWaiting,
      asks: (asked, answer) => askAloud(asked, { answer, sayWaiting, silent_ms }),
      warn: (message) => {
        context.log.warn(message);
      },
    };
    const heartbeat = setInterval(
      () => {
        context.heartbeat(details);
      },
      (info.heartbeatTimeoutMs ?? DEFAULT_HEARTBEAT_MS) / 3,
    );
    try {
      const result = await body(attempt);
      await sayWaiting(null);
      return result;
    } catch (error) {
      if (error instanceof Fault && error.trace !== null) context.log.warn(error.trace);
      const waiting = waitingFor(error);
      if (waiting !== null)
        await sayWaiting({ tries: info.attempt, since: sinceOf(details), ...waiting });
      context.heartbeat(details);
      throw toFailure(error);
    } finally {
      clearInterval(heartbeat);
    }
  };
}

/** Of a wait that no journal counts, from its first attempt on. */
function sinceOf(details: HeartbeatDetails): string {
  details.since ??= Date.now() / 1000;
  return timeText(details.since);
}

/** Tells only what is news: that it waits, that it has been tried twice as often, and that it is over. */
function sayer(
  details: HeartbeatDetails,
  signal: (waiting: Waiting | null) => Promise<void>,
): Attempt['sayWaiting'] {
  return async (waiting) => {
    const tries = waiting === null ? 0 : (waiting.tries ?? NO_TRY);
    const isNews = waiting === null ? details.waiting > 0 : tries >= 2 * details.waiting;
    if (!isNews) return;
    details.waiting = tries;
    if (waiting === null) details.since = null;
    await signal(waiting);
  };
}

const WAITED_FOR: ReadonlySet<FaultType> = new Set([
  'GenerationUnavailable',
  'EnvironmentUnavailable',
  'EnvironmentFailed',
]);

function waitingFor(error: unknown): Waiting | null {
  if (!(error instanceof Fault) || !error.retryable || !WAITED_FOR.has(error.type)) return null;
  const { waited, at, type } = error;
  return {
    service: (at ?? waited?.call ?? type).slice(0, 300),
    message: error.message.slice(0, 300),
    ...(waited !== null && {
      call: waited.call.slice(0, 300),
      tries: waited.tries,
      since: timeText(waited.since),
    }),
  };
}

async function askAloud<T>(
  { call, moved_at }: Asked,
  {
    answer,
    sayWaiting,
    silent_ms,
  }: Pick<Attempt, 'sayWaiting'> & { answer: () => Promise<T>; silent_ms: number },
): Promise<T> {
  const asked_at = Date.now();
  const told = { silent: false };
  const look = (): void => {
    const moved_ms = Math.max(asked_at, (moved_at() ?? 0) * 1000);
    const isSilent = Date.now() - moved_ms >= silent_ms;
    if (isSilent === told.silent) return;
    told.silent = isSilent;
    const since = timeText(moved_ms / 1000);
    void sayWaiting(isSilent ? { service: call, call, message: 'no answer yet', since } : null);
  };
  const looking = setInterval(look, silent_ms / 4).unref();
  try {
    const answered = await answer();
    if (told.silent) await sayWaiting(null);
    return answered;
  } finally {
    clearInterval(looking);
  }
}

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
  // Again behind it: what is not seen may stand within a secret.
  const clean = (text: string): string => withoutSecrets(plain(withoutSecrets(text)));
  const [text, stack] = [describeError(error), error.stack ?? ''];
  const message = clean(text);
  if (message === text && clean(stack) === stack) return error;
  const failure = ApplicationFailure.create({ type: error.name, message });
  failure.stack = clean(stack);
  return failure;
}
