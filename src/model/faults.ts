import { shortened } from '../platform/errors.js';
import { plain } from '../platform/plain.js';

/**
 * All faults, named for the boundary where they occur. A fault is data about a rollout, never a reward. This file
 * decides whether a fault is retried: `RETRYABLE` by type, `judged` by what came before. A thrower can only end the
 * retries of one fault. Temporal does the retrying: `activities/attempt.ts` turns a `Fault` into
 * Temporal's failure, and `workflows/activity-options.ts` has the intervals.
 */

/** Messages are stored in history and in rows. The longest are those of `invalidBatchRequest`. */
const MAX_MESSAGE = 4000;
/** Only so much of a text is made plain, which takes a second for the largest answers. */
const MAX_READ = 65_536;

const messageOf = (text: string): string =>
  shortened(plain(shortened(text, MAX_READ)), MAX_MESSAGE);

const RETRYABLE = {
  GenerationUnavailable: true,
  GenerationRejected: false,
  ProtocolError: true,
  EnvironmentUnavailable: true,
  EnvironmentRejected: false,
  /** It raised an exception for this turn, or answered 500; retried as `attempts.environment` says. */
  EnvironmentFailed: true,
  /** An agent's result says that it failed, or that its reward is invalid. */
  AgentFailed: false,
  /** An environment's state could not be rebuilt as the journal has it. */
  StateLost: false,
  /** An environment that is stepped again, behind a fork, says something else than it said before. */
  ReplayDiffers: false,
  /** A service lost the rollout's session: the rollout starts over, and fails at the third loss. */
  EnvironmentStateLost: false,
  StoreFault: true,
  /**
   * The journal lacks what the workflow has seen in it: its database was restored to an earlier moment, or this worker
   * has another store. The rollout is opened again, from what the journal has; at the third loss it fails.
   */
  JournalLost: false,
  /** An engine reports other weights than the record; retried elsewhere. */
  PolicyVersionMismatch: true,
  /** Update `publish` failed; the caller may repeat it. */
  PolicyUpdateFailed: false,
  /** Update `next_step` asked for a step that is neither the next nor a kept one, or with an older version. */
  StepOutOfOrder: false,
  StreamEnded: false,
  /** Many groups in a row were discarded; the next request tries as many more. */
  StreamStarved: false,
  PromptTooLong: false,
  InvalidBatchRequest: false,
  TimedOut: false,
} as const;

export type FaultType = keyof typeof RETRYABLE;

export const FAULT_TYPES = Object.keys(RETRYABLE) as FaultType[];

/** NeMo Gym's classes of a failed `/run`: the agent answered with an error, or gave no usable answer. */
export const FAILURE_CLASSES = ['agent_run_error', 'agent_request_failed'] as const;
export type FailureClass = (typeof FAILURE_CLASSES)[number];

/** Where a storage operation failed: what a `StoreFault` waits for. One that is retried at once has no place. */
export const THE_STORE = 'the store';

export interface FaultFacts {
  type: FaultType;
  /** What failed, for which thing, why; expected and got. Outside text in it is made plain. */
  message: string;
  /** Where it happened: the URL of a replica or environment, or `THE_STORE`. */
  at?: string;
  /** The delay that `retry-after` asked for, at most a minute. */
  retryAfterMs?: number;
  /** Unlike its type: false ends its retries; only `judged` gives some to a type that has none. */
  retryable?: boolean;
  cause?: unknown;
  status?: number;
  failureClass?: FailureClass;
  /** The agent did not play this run, so it costs none of the row's attempts. */
  uncounted?: true;
  waited?: Waited;
  /** Where the environment's own code threw it, frame by frame, for logs and for the author of that code. */
  trace?: string;
}

/** The call that failed, how often, and since when: times in seconds since 1970. */
export interface Waited {
  call: string;
  tries: number;
  since: number;
  /** Since when each of its answers contradicts what planning saw. */
  denied_since?: number;
}

/** Thrown by services and activities, never by workflows. Its message contains no secret of this process. */
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
  readonly #given: FaultFacts;

  constructor({ cause, ...given }: FaultFacts) {
    const { type, message, trace } = given;
    super(messageOf(message), cause === undefined ? undefined : { cause });
    this.#given = { ...given, message: this.message };
    this.name = type;
    this.type = type;
    this.retryable = given.retryable ?? RETRYABLE[type];
    this.at = given.at ?? null;
    this.retryAfterMs = given.retryAfterMs ?? null;
    this.status = given.status ?? null;
    this.failureClass = given.failureClass ?? null;
    this.uncounted = given.uncounted ?? false;
    this.waited = given.waited ?? null;
    this.trace = trace === undefined ? null : messageOf(trace);
  }

  with(facts: Partial<FaultFacts>): Fault {
    return new Fault({ ...this.#given, cause: this, ...facts });
  }
}

export const isStoreFault = (error: unknown): boolean =>
  error instanceof Fault && error.type === 'StoreFault';

export const isUnavailable = (error: unknown): error is Fault =>
  error instanceof Fault && error.type === 'GenerationUnavailable';

/** The fault of an attempt that is no longer the one that may go on. */
export const takenOver = (what: string): Fault =>
  new Fault({ type: 'StoreFault', message: `another attempt has taken over ${what}` });

/** Whether the rollout is in other hands: nothing is wrong, and nobody has to read of it. */
export const isTakenOver = ({ type, at, retryable }: Fault): boolean =>
  type === 'StoreFault' && at === null && retryable;

/** How often a turn may meet a fault that it is likely to meet again. */
export interface Attempts {
  environment: number;
}

/** Replies to one turn that break the protocol: the second one is final. */
const MOST_PROTOCOL_ERRORS = 2;

/** Statuses that deny what planning saw: that the engine takes the key, and has the model and the routes. */
const DENIALS: ReadonlySet<number | null> = new Set([401, 403, 404]);

/** How long a denied request is sent again: a gateway or an adapter that comes back does so within that. */
const DENIED_FOR_S = 120;

/** Whether an engine denies what planning saw. Any other refusal says something about the request. */
export const isDenial = (error: unknown): error is Fault =>
  error instanceof Fault && error.type === 'GenerationRejected' && DENIALS.has(error.status);

/** What decides about a retry, besides the type. */
export interface Past {
  /** Faults of the turn by type, this one included. */
  of_turn?: Record<string, number>;
  attempts?: Attempts;
  /** Attempts of an agent's row, without this one. */
  attempts_left?: number;
  /** Lives that an agent's program has left, if it has failed by itself. */
  lives_left?: number;
  /** false while a batch is planned: no journal counts then, so the first protocol error is final. */
  is_planned?: boolean;
  /** For how many seconds a rollout's engine has denied what planning saw. */
  denied_s?: number;
}

/** The fault to throw: final if its type is, or by earlier faults, which `recordFault` counts in the journal first. */
export function judged(
  fault: Fault,
  {
    of_turn = {},
    attempts,
    attempts_left = Infinity,
    is_planned = true,
    denied_s,
    lives_left = 0,
  }: Past,
): Fault {
  if (denied_s !== undefined) return judgedDenial(fault, denied_s);
  if (fault.type === 'AgentFailed' && lives_left > 0) return fault.with({ retryable: true });
  const most: Partial<Record<FaultType, number>> = {
    ProtocolError: is_planned ? MOST_PROTOCOL_ERRORS : 0,
    ...(attempts && { EnvironmentFailed: attempts.environment }),
  };
  const isFinal =
    attempts_left <= 0 || (of_turn[fault.type] ?? 0) >= (most[fault.type] ?? Infinity);
  return isFinal && fault.retryable ? fault.with({ retryable: false }) : fault;
}

function judgedDenial(fault: Fault, denied_s: number): Fault {
  const saw = 'planning saw it work';
  if (denied_s < DENIED_FOR_S) {
    const message = `${fault.message}; ${saw}, so it is asked again for ${DENIED_FOR_S / 60} minutes`;
    return fault.with({ message, retryable: true });
  }
  return fault.with({
    message: `${fault.message}; for ${Math.floor(denied_s)} s, though ${saw}`,
  });
}
