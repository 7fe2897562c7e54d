import type { Share } from '../platform/allowance.js';

/**
 * An environment answers a turn. Upstream's interface (NeMo RL `environments/interfaces.py`), for one or many
 * samples at once; environments behind a service speak the same shapes over HTTP (`http.ts`).
 */

export interface EnvironmentMessage {
  role: string;
  content: string;
}

/** `metadata` *is* the environment's state; it is journalled at every turn. */
export type Metadata = Record<string, unknown>;

export interface StepInput {
  /** Per sample, only `role` and `content` of each message. */
  message_log_batch: EnvironmentMessage[][];
  metadata: Metadata[];
}

export interface StepContext {
  /** `<rollout_id>/<turn>`: the same for every attempt at a turn. */
  idempotency_key: string;
  signal: AbortSignal;
  /** An environment with sessions was sent this step before, and what became of that is not known. */
  was_asked?: boolean;
  /** Where a large answer takes its room from, which is given back when it is journalled. */
  share?: Share;
}

/** How a session begins. */
export interface Beginning {
  /** Appended to the sample's prompt, before it is rendered. */
  messages: EnvironmentMessage[];
  /** The first state, in the place of the sample's: what names the session stands under `SESSION_KEY`. */
  metadata: Metadata;
}

/** Lists are as long as the batch. */
export interface EnvironmentReturn {
  observations: EnvironmentMessage[];
  /** null keeps the sample's previous metadata. */
  metadata: (Metadata | null)[];
  next_stop_strings: (string[] | null)[] | null;
  /** One number per sample, or named components, each one number per sample. */
  rewards: number[] | Record<string, number[]>;
  terminateds: (boolean | 0 | 1)[];
  /** Ended by a limit of the environment's own; absent: none has one. */
  truncateds?: (boolean | 0 | 1)[];
  answers?: (string | null)[] | null;
}

/** What `globalPostProcessAndMetrics` sees of a finished rollout. */
export interface FinishedRollout {
  message_log: EnvironmentMessage[];
  total_reward: number;
  rewards: Record<string, number>;
  extra_env_info: Metadata;
}

/** One after the other, as their rows are read: a batch's logs need not fit into memory. */
export type FinishedRollouts = Iterable<FinishedRollout> | AsyncIterable<FinishedRollout>;

/** One request to an agent. */
export interface AgentRequest {
  /** Where its server is, as `health` said. */
  url: string;
  /** The row as JSON text. */
  body: string;
  /** How often the row was played before, which the agent is told. */
  attempt: number;
  /** Instead of the environment's own. */
  timeout_ms?: number;
  /** Given the answer while there is room for it: it may be large, and others wait. */
  keep: (answer: AgentAnswer) => Promise<void>;
  signal: AbortSignal;
}

/** What an agent said. */
export interface AgentAnswer {
  /** As it came. */
  text: string;
  /** null: none, of an answer that says that it failed. */
  reward: number | null;
  /** How it failed, where it says that it did. */
  failure_class: string | null;
  /** It would fail again. */
  terminal: boolean;
  /** false: nobody is to keep it. */
  persist: boolean;
  usage: { output_tokens: number; total_tokens: number } | null;
}

/** Servers that play whole rollouts. */
export interface AgentServers {
  /** Where the agent's server is, which is there; throws the faults of a step. */
  health: (agent: string, signal: AbortSignal) => Promise<string>;
  /** Plays a rollout, and has its answer kept. Faults have a failure class, but for those of `keep`. Aborting `signal` closes the connection. */
  run: (request: AgentRequest) => Promise<void>;
}

export interface Environment {
  /**
   * True for a pure function of the log and its metadata: its turns are played next to the generation,
   * many in one activity. False for anything behind a service: its steps get their own activity.
   */
  readonly in_process: boolean;
  /** Plays whole rollouts; `step` is never called then. */
  readonly agent?: AgentServers;
  /** Throws `EnvironmentUnavailable` or `EnvironmentRejected` faults; anything else thrown is a rejection. */
  step(input: StepInput, context: StepContext): Promise<EnvironmentReturn>;
  /**
   * Opens a session for one rollout; absent: it needs none. `idempotency_key` is `<rollout_id>/begin-<life>`: a step
   * that throws `EnvironmentStateLost` ends a life, and the rollout starts over with a new session. Of the faults of its
   * steps, `EnvironmentUnavailable` promises that the same step may be sent again.
   */
  begin?(
    sample: { message_log: EnvironmentMessage[]; metadata: Metadata },
    context: StepContext,
  ): Promise<Beginning>;
  /** Ends the session, where that is something to do: then true. May be called more than once. */
  end?(metadata: Metadata, signal: AbortSignal): Promise<boolean>;
  /** Metrics over the finished rollouts of this environment, in input order; absent or null: none. */
  globalPostProcessAndMetrics?(
    rollouts: FinishedRollouts,
    signal: AbortSignal,
  ): Promise<Record<string, number> | null>;
  /** Resolves when a step would find what it needs; throws the same faults as a step. */
  health?(signal: AbortSignal): Promise<void>;
  /** Ends the processes and connections that it holds. */
  close?(): Promise<void>;
}
