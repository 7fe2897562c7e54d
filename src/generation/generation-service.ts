import type { LogprobsMode } from '../model/logprobs-mode.js';
import type { ChatMessage, Renderer } from '../model/turn/chat-turn.js';
import type { GenerationSettings } from '../model/batch-request.js';
import type { Finish, TopLogprobs } from '../model/journal.js';
import type { PolicyRecord } from '../model/policy/record.js';

/**
 * The generation service as rollouts see it: token ids in, token ids and logprobs out.
 * Adapters (`vllm/`) speak a server's wire; everything above this file is back-end independent.
 */

/** One turn's request. Every sampling parameter is explicit, so that no server default can change a distribution. */
export interface GenerationRequest {
  /** The whole context, the concatenated `token_ids` of the message log. */
  prompt_ids: readonly number[];
  model: string;
  /** At least 1; the caller has already subtracted what `max_seq_len` leaves. */
  max_tokens: number;
  temperature: number;
  top_p: number;
  /** -1 switches it off. */
  top_k: number;
  min_p: number;
  repetition_penalty: number;
  presence_penalty: number;
  frequency_penalty: number;
  /** At most `max_tokens`. */
  min_tokens: number;
  ignore_eos: boolean;
  structured_outputs: GenerationSettings['structured_outputs'];
  /** 32-bit; null sends none. */
  seed: number | null;
  stop_strings: readonly string[];
  stop_token_ids: readonly number[];
  logprobs: boolean;
  /** How many of the likeliest ids to name at each place; only with `logprobs`. */
  top_logprobs: number;
  /** Unique per attempt: `<rollout_id>.<turn>.<writer>`. */
  request_id: string;
  /** Keeps what a prefix cache holds apart from other weights'; absent: nothing is published. */
  cache_salt?: string;
  /** The rollout id: affinity for routers, and how a server's log is read. */
  session_id: string;
}

/** What one network event added. `logprobs` is as long as `token_ids`, or empty when none were asked for. */
export interface Delta {
  token_ids: number[];
  logprobs: number[];
  /** One entry for each token, where they were asked for. */
  top_logprobs?: TopLogprobs;
  /** Text lags ids: held back for stop strings and unfinished UTF-8. */
  text: string;
  /** The engine ended the generation with these tokens; what is still to come can only object. */
  finish?: Finish;
}

/** How a generation ended. Its tokens have all gone through `onDelta` before. */
export interface GenerationEnd extends Finish {
  /** Seconds from sending the request to its first token (to its end where there is none): the engine's queue and prefill. */
  queue_s: number;
  /** Seconds from the first token to the end; 0 where there is none. */
  generate_s: number;
  /** Which weights sampled which of the request's tokens; absent: this wire does not say. */
  spans?: VersionSpan[];
}

/** Tokens `start` to `end` (not included) of a request. */
export interface VersionSpan {
  version: string;
  start: number;
  end: number;
}

export interface GenerateContext {
  /** Aborting it closes the connection, which stops the engine; `generate` then throws the signal's reason. */
  signal: AbortSignal;
  onDelta: (delta: Delta) => void;
}

export interface ServiceDescription {
  /** Served names (base models and adapters), first the default. */
  models: { id: string; max_model_len: number | null }[];
  version: string | null;
}

export type { ChatMessage };

/** One replica. Methods throw faults (`model/faults.ts`): `GenerationUnavailable`, `GenerationRejected`, `ProtocolError`. */
export interface GenerationService extends Renderer {
  /** The base URL, as journals and rows name it. */
  readonly replica: string;
  /** false: its streams bring ids alone, and text comes from `detokenize`. Absent: they bring text. */
  readonly tells_text?: () => boolean;
  /** Resolves when the engine is ready to generate; checks health, then asks for models and version. */
  describe(signal: AbortSignal): Promise<ServiceDescription>;
  /**
   * A prompt that alone fills the engine's context is an empty generation, finish `length`; one that leaves less than
   * `max_tokens` has what is left.
   */
  generate(request: GenerationRequest, context: GenerateContext): Promise<GenerationEnd>;
  /**
   * Ids that the chat template adds for a message behind the policy's answer: the end of the answer's turn, the message,
   * the generation prompt. Throws `GenerationRejected` where the template does not render its role.
   */
  renderTurn(
    turn: { model: string; message: ChatMessage; chat_template_kwargs: Record<string, unknown> },
    signal: AbortSignal,
  ): Promise<number[]>;
  /** The label of the weights that the server samples from now; null where it does not say. */
  weightVersion(signal: AbortSignal): Promise<string | null>;
  /** While it is, requests are accepted and hang. False where the server can't say, or does not answer. Never throws. */
  isPaused(): Promise<boolean>;
  /** Drops all connections; a request in flight fails. */
  close(): Promise<void>;
}

/** A request that goes to one of a service's replicas. */
export interface ReplicaRequest {
  /** The rollout id: requests of one rollout go to one replica as long as that is healthy and has room. */
  session_id: string;
  /** Ends the wait for a slot; its abort is never the replica's fault. */
  signal: AbortSignal;
  /** Generations take a slot of the replica; the small questions beside them do not. */
  is_generation: boolean;
  /** While no replica serves: why, a second after it began to wait; null when that is over. */
  held?: (why: string | null) => void;
}

/** What the record of the service's policy said of the replica when the request was given to it. */
export interface Fence {
  version: number | null;
  epoch: number;
  /** The record's own, as it was then. */
  record_epoch: number;
}

/** Of the record of a service's policy; both throw `StoreFault`. */
export interface PolicyReading {
  /** As it stands now, no older than the question; null: nothing has ever been published. */
  latest: () => Promise<PolicyRecord | null>;
  /** As it stood at this epoch. */
  at: (epoch: number) => Promise<PolicyRecord | null>;
}

export interface Lease {
  /** null: nothing had been published when the request was sent. */
  fence: Fence | null;
  policy: PolicyReading;
  /** Seconds in line for a slot. */
  waited_s: number;
  /** Resolves once the replica no longer says that it is paused; rejects with the signal's reason. */
  pauseOver: (signal: AbortSignal) => Promise<void>;
  /** Which distribution its logprobs are of. Rejects with the signal's reason, or where the replica is away. */
  logprobsMode: LogprobsModeOf;
}

/** Asked once of a replica and model, and again when it was away, a while after it did not show it, or on demand. */
export type LogprobsModeOf = (
  model: string,
  options: { signal: AbortSignal; again?: boolean },
) => Promise<LogprobsMode>;

export interface DescribedReplica extends ServiceDescription {
  replica: string;
}

/** The replicas of one service. */
export interface Replicas {
  /**
   * Calls `run` once, with the replica that the request goes to; a generation holds its slot until `run` ends. What
   * `run` throws is thrown, and a `GenerationUnavailable` keeps later requests away from that replica for a while.
   */
  request: <T>(
    request: ReplicaRequest,
    run: (service: GenerationService, lease: Lease) => Promise<T>,
  ) => Promise<T>;
  /** Asks each replica. At least one description, of those that are there; throws the first one's fault where none is. */
  describe: (signal: AbortSignal) => Promise<DescribedReplica[]>;
  /** The same with a question to each that is sent while a batch is planned. */
  askEach: <T>(
    question: (service: GenerationService, lease: Pick<Lease, 'logprobsMode'>) => Promise<T>,
    signal: AbortSignal,
  ) => Promise<{ replica: string; answer: T }[]>;
}
