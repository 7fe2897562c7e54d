import type { EnvironmentContext } from '../environment-context.js';
import type {
  Environment,
  EnvironmentMessage,
  Metadata,
  Observation,
  StepContext,
} from '../environment.js';

/** What a module of kind `module` exports: `import type { … } from 'durable-rollouts/environment'`. */

export type { EnvironmentContext } from '../environment-context.js';
export type {
  Environment,
  EnvironmentMessage,
  EnvironmentReturn,
  FinishedRollout,
  FinishedRollouts,
  Metadata,
  Observation,
  StepContext,
  StepInput,
} from '../environment.js';

/** One sample's turn. */
export interface Turn {
  /** Only `role` and `content` of each message; the last one is the policy's. */
  message_log: EnvironmentMessage[];
  /** The sample's `extra_env_info`, or what the last turn returned instead. */
  metadata: Metadata;
}

export interface TurnAnswer {
  /** A plain text gets the role `environment`. A message may have pictures beside its text. */
  observation: string | Observation;
  /** A number, or named components, which are added up. */
  reward: number | Record<string, number>;
  terminated: boolean;
  /** Ended by a limit of the environment; absent: it was not. */
  truncated?: boolean;
  /** Absent or null keeps the previous metadata. */
  metadata?: Metadata | null;
  next_stop_strings?: string[] | null;
  answer?: string | null;
}

/** For one rollout, before its first turn. */
export interface SessionSample {
  /**
   * `<rollout_id>/<life>/<deployment>`: the same for every attempt, and for the end. Name a resource after it, so that
   * it is made once.
   */
  session: string;
  message_log: EnvironmentMessage[];
  metadata: Metadata;
}

interface Optional extends Pick<Environment, 'globalPostProcessAndMetrics' | 'health' | 'close'> {
  /** Before the first turn, at least once; returns the first state, or null to keep the sample's. */
  begin?(
    sample: SessionSample,
    context: Pick<StepContext, 'signal'>,
  ): Metadata | null | undefined | Promise<Metadata | null | undefined>;
  /** After any ending, at least once, with the last state; for a rollout that never began, the sample's. */
  end?(
    metadata: Metadata,
    context: Pick<StepContext, 'signal'> & Pick<SessionSample, 'session'>,
  ): void | Promise<void>;
}

/** One sample at a time: the simple form. */
export interface TurnEnvironment extends Optional {
  stepOne(turn: Turn, context: StepContext): TurnAnswer | Promise<TurnAnswer>;
}

/** Upstream's interface, for one or many samples at once. */
export interface BatchEnvironment extends Optional {
  step: Environment['step'];
}

/** An export that is a function: it is called once, when the worker starts, with the module's `settings`. */
export type CreateEnvironment = (
  settings: Record<string, unknown>,
  context: EnvironmentContext,
) => TurnEnvironment | BatchEnvironment | Promise<TurnEnvironment | BatchEnvironment>;
