import type { EnvironmentContext as InsideContext } from '../kind.js';
import type {
  Environment as Inside,
  EnvironmentMessage,
  Metadata,
  Observation,
  StepContext,
  Turn,
  TurnAnswer as Answer,
} from '../environment.js';

/** What a module of kind `module` exports: `import type { … } from 'durable-rollouts/environment'`. */

export type {
  EnvironmentMessage,
  FinishedRollout,
  FinishedRollouts,
  Metadata,
  Observation,
  StepContext,
  Turn,
} from '../environment.js';

/** Graders and indexes that it opens belong to its process. */
export type EnvironmentContext = Omit<InsideContext, 'answers' | 'environments'>;

export interface TurnAnswer extends Omit<Answer, 'observation'> {
  /** A plain text gets the role `environment`. A message may have pictures beside its text. */
  observation: string | Observation;
}

/** Upstream's lists, with an entry for each sample. */
export interface StepInput {
  message_log_batch: EnvironmentMessage[][];
  metadata: Metadata[];
}

export interface EnvironmentReturn {
  observations: Observation[];
  /** null keeps the sample's previous metadata. */
  metadata: (Metadata | null)[];
  next_stop_strings?: (string[] | null)[] | null;
  /** One number per sample, or named components, each one number per sample. */
  rewards: number[] | Record<string, number[]>;
  terminateds: (boolean | 0 | 1)[];
  /** Ended by a limit of the environment; absent: it has none. */
  truncateds?: (boolean | 0 | 1)[];
  answers?: (string | null)[] | null;
}

/** For one rollout, before its first turn. */
export interface SessionSample {
  /**
   * `<rollout_id>/<life>/<deployment>`: the same for every attempt, and for the end. A resource that is named after it is
   * made once.
   */
  session: string;
  message_log: EnvironmentMessage[];
  metadata: Metadata;
}

interface Optional extends Pick<Inside, 'globalPostProcessAndMetrics' | 'health' | 'close'> {
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

/** Upstream's interface. The lists have one entry each. */
export interface BatchEnvironment extends Optional {
  step(input: StepInput, context: StepContext): EnvironmentReturn | Promise<EnvironmentReturn>;
}

export type Environment = BatchEnvironment;

/** An export that is a function: it is called once, when the worker starts, with the module's `settings`. */
export type CreateEnvironment = (
  settings: Record<string, unknown>,
  context: EnvironmentContext,
) => TurnEnvironment | BatchEnvironment | Promise<TurnEnvironment | BatchEnvironment>;
