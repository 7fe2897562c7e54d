/**
 * The vocabulary of everything that can go wrong, named for the boundary that was crossed.
 * A fault is data about a rollout, never a reward. Whether it is retried is decided here, once;
 * Temporal does the retrying (`activities/failures.ts` turns a `Fault` into its failure).
 */

/** Retryable or not, by type. `ProtocolError` is retried until the journal holds two of them for the turn. */
const RETRYABLE = {
  GenerationUnavailable: true,
  GenerationRejected: false,
  ProtocolError: true,
  EnvironmentUnavailable: true,
  EnvironmentRejected: false,
  /** An environment's state could not be made again as the journal has it. */
  StateLost: false,
  /** An environment behind a service lost its session: the rollout starts over, three times at most. */
  EnvironmentStateLost: false,
  StoreFault: true,
  PromptTooLong: false,
  InvalidBatchRequest: false,
  TimedOut: false,
} as const;

export type FaultType = keyof typeof RETRYABLE;

export interface FaultFacts {
  type: FaultType;
  /** What failed, for which thing, why; expected and got. */
  message: string;
  /** The replica (base URL) or the environment's URL that it happened at. */
  at?: string;
  /** What the other side asked for by `retry-after`, at most a minute. */
  retryAfterMs?: number;
  /** Only to end the retries of a type that is otherwise retried. */
  retryable?: false;
  cause?: unknown;
}

/** Thrown by services (generation, environments, trajectories) and by activities; never by workflows. */
export class Fault extends Error {
  readonly type: FaultType;
  readonly retryable: boolean;
  readonly at: string | null;
  readonly retryAfterMs: number | null;

  constructor({ type, message, at, retryAfterMs, retryable, cause }: FaultFacts) {
    super(message, cause === undefined ? undefined : { cause });
    this.name = type;
    this.type = type;
    this.retryable = retryable ?? RETRYABLE[type];
    this.at = at ?? null;
    this.retryAfterMs = retryAfterMs ?? null;
  }
}

/** The text of anything thrown, with the causes that `fetch` and friends hide ("fetch failed"). */
export function describeError(error: unknown): string {
  const texts: string[] = [];
  let cause = error;
  // A chain may be long, or even a circle.
  for (let depth = 0; depth < 4 && cause instanceof Error; depth++) {
    if (cause.message !== '' && !texts.includes(cause.message)) texts.push(cause.message);
    cause = cause.cause;
  }
  return texts.length > 0 ? texts.join(': ') : String(error);
}
