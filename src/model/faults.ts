import { plain } from '../platform/plain.js';

/**
 * The vocabulary of everything that can go wrong, named for the boundary that was crossed.
 * A fault is data about a rollout, never a reward. Whether it is retried is decided in this file alone;
 * Temporal does the retrying (`activities/attempt.ts` turns a `Fault` into its failure).
 */

import { shortened } from '../platform/errors.js';

/** Messages live in history and in rows; the longest are those of `invalidBatchRequest`. */
const MAX_MESSAGE = 4000;

/** Retryable or not, by type; `judged` counts those that are retried only so often in a turn. */
const RETRYABLE = {
  GenerationUnavailable: true,
  GenerationRejected: false,
  ProtocolError: true,
  EnvironmentUnavailable: true,
  EnvironmentRejected: false,
  /** It raised an exception for this turn: retried as often as the request's `attempts.environment` says. */
  EnvironmentFailed: true,
  /** An agent gave a result that says that it failed, or that its reward means nothing. */
  AgentFailed: false,
  /** An environment's state could not be made again as the journal has it. */
  StateLost: false,
  /** An environment behind a service lost its session: the rollout starts over, three times at most. */
  EnvironmentStateLost: false,
  StoreFault: true,
  /** What an engine says of its weights is not what the record says: retried elsewhere. */
  PolicyVersionMismatch: true,
  /** Of update `publish`: whoever asked may ask again. */
  PolicyUpdateFailed: false,
  /** Of update `next_step`: neither the next step nor one that is kept, or under an older version. */
  StepOutOfOrder: false,
  /** No step comes any more. */
  StreamEnded: false,
  /** Groups went out one after the other; asking again tries as many more. */
  StreamStarved: false,
  PromptTooLong: false,
  InvalidBatchRequest: false,
  TimedOut: false,
} as const;

export type FaultType = keyof typeof RETRYABLE;

export const FAULT_TYPES = Object.keys(RETRYABLE) as FaultType[];

/** NeMo Gym's classes of a failed `/run`: the agent answered with an error, or gave no usable answer at all. */
export const FAILURE_CLASSES = ['agent_run_error', 'agent_request_failed'] as const;
export type FailureClass = (typeof FAILURE_CLASSES)[number];

export interface FaultFacts {
  type: FaultType;
  /** What failed, for which thing, why; expected and got. It may quote what came: a fault's is plain text. */
  message: string;
  /** The replica (base URL) or the environment's URL that it happened at. */
  at?: string;
  /** What the other side asked for by `retry-after`, at most a minute. */
  retryAfterMs?: number;
  /** Only to end the retries of a type that is otherwise retried. */
  retryable?: false;
  cause?: unknown;
  /** Of an answer over HTTP. */
  status?: number;
  /** Of a failed run of an agent. */
  failureClass?: FailureClass;
  /** Of a run that the agent did not play: it uses up none of the row's attempts. */
  uncounted?: true;
  /** As its journal has it. */
  waited?: Waited;
  /** Where the environment's own code threw it, frame by frame: for logs and for whoever writes that code. */
  trace?: string;
}

/** The call that failed, how often it has, and since when (seconds since 1970). */
export interface Waited {
  call: string;
  tries: number;
  since: number;
}

/**
 * Thrown by services (generation, environments, trajectories) and by activities; never by workflows. Its message holds
 * no secret of this process, whoever wrote it.
 */
export class Fault extends Error {
  readonly type: FaultType;
  readonly retryable: boolean;
  readonly at: string | null;
  readonly retryAfterMs: number | null;
  readonly status: number | null;
  readonly failureClass: FailureClass | null;
  readonly uncounted: boolean;
  readonly waited: Waited | null;
  readonly trace: string | null;

  constructor({ type, message, cause, ...facts }: FaultFacts) {
    super(shortened(plain(message), MAX_MESSAGE), cause === undefined ? undefined : { cause });
    this.name = type;
    this.type = type;
    this.retryable = facts.retryable ?? RETRYABLE[type];
    this.at = facts.at ?? null;
    this.retryAfterMs = facts.retryAfterMs ?? null;
    this.status = facts.status ?? null;
    this.failureClass = facts.failureClass ?? null;
    this.uncounted = facts.uncounted ?? false;
    this.waited = facts.waited ?? null;
    this.trace = facts.trace === undefined ? null : shortened(plain(facts.trace), MAX_MESSAGE);
  }
}

/** The same fault with facts of its own or in place of some. */
export function faultWith(fault: Fault, facts: Partial<FaultFacts>): Fault {
  const { type, message, at, retryable, retryAfterMs, status, failureClass, uncounted } = fault;
  const { waited, trace } = fault;
  return new Fault({
    type,
    message,
    cause: fault,
    ...(at !== null && { at }),
    ...(!retryable && { retryable }),
    ...(retryAfterMs !== null && { retryAfterMs }),
    ...(status !== null && { status }),
    ...(failureClass !== null && { failureClass }),
    ...(uncounted && { uncounted }),
    ...(waited !== null && { waited }),
    ...(trace !== null && { trace }),
    ...facts,
  });
}

/** How often a turn may meet what the same turn is likely to meet again. */
export interface Attempts {
  /** Exceptions of the environment. */
  environment: number;
}

/** Replies to one turn that break the protocol: the second one is final. */
const MOST_PROTOCOL_ERRORS = 2;

/** What decides, beside its type, whether a fault is retried. */
export interface Past {
  /** Faults of the turn by type, this one included. */
  of_turn?: Record<string, number>;
  /** The request's. */
  attempts?: Attempts;
  /** Of an agent's row, this one not included. */
  attempts_left?: number;
  /** No journal counts while a batch is planned, so that its first protocol error is final. */
  is_planned?: boolean;
}

/** The fault as it is thrown: final where its type is, or where what came before makes it so. */
export function judged(
  fault: Fault,
  { of_turn = {}, attempts, attempts_left = Infinity, is_planned = true }: Past,
): Fault {
  const most: Partial<Record<FaultType, number>> = {
    ProtocolError: is_planned ? MOST_PROTOCOL_ERRORS : 0,
    ...(attempts && { EnvironmentFailed: attempts.environment }),
  };
  const isFinal =
    attempts_left <= 0 || (of_turn[fault.type] ?? 0) >= (most[fault.type] ?? Infinity);
  return isFinal && fault.retryable ? faultWith(fault, { retryable: false }) : fault;
}
