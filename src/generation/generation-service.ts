import { Fault } from '../model/faults.js';
import type { ForeignObject } from '../model/foreign-object.js';
import type { LogprobsMode } from '../model/logprobs-mode.js';
import type { ChatMessage, Renderer } from '../model/turn/chat-turn.js';
import type { GenerationSettings } from '../model/generation-settings.js';
import type { Finish, TopLogprobs } from '../model/journal.js';
import type { Place, PlacedPicture } from '../model/pictures.js';
import type { NamedAdapter } from '../model/policy/adapters.js';
import type { PolicyRecord } from '../model/policy/record.js';

/**
 * The generation service as rollouts see it: token ids in, token ids and logprobs out. Adapters (`vllm/`, `sglang/`)
 * implement a server's wire; everything above this file is independent of the back end. `adapters.ts` has them all.
 */

/** One turn's request. Every sampling parameter is explicit, so that no server default changes a distribution. */
export interface GenerationRequest extends AsSet {
  /** The whole context: the concatenated `token_ids` of the message log. */
  prompt_ids: readonly number[];
  /** The pictures that some of these ids stand for, in order; absent: none. */
  pictures?: readonly PlacedPicture[];
  model: string;
  /** The adapter that samples on this model; absent: none. */
  adapter?: string;
  /** At least 1. The caller has already applied `max_seq_len`. */
  max_tokens: number;
  temperature: number;
  /** At most `max_tokens`. */
  min_tokens: number;
  /** 32-bit; null sends none. */
  seed: number | null;
  stop_strings: readonly string[];
  logprobs: boolean;
  /** Texts have special tokens. Absent: they have none. */
  shows_special_tokens?: true;
  /** Unique per attempt: `<rollout_id>.<turn>.<writer>`. */
  request_id: string;
  /** Separates the prefix caches of different weights; absent: nothing is published. */
  cache_salt?: string;
  /** The rollout id: affinity for routers, and a key for the server's log. */
  session_id: string;
}

/** What a request takes from its batch as it is. */
const AS_SET = [
  'top_p',
  'top_k',
  'min_p',
  'repetition_penalty',
  'presence_penalty',
  'frequency_penalty',
  'ignore_eos',
  'bad_words',
  'structured_outputs',
  'stop_token_ids',
  'top_logprobs',
] as const;
export type AsSet = Pick<GenerationSettings, (typeof AS_SET)[number]>;
export const asSet = (generation: AsSet): AsSet =>
  Object.fromEntries(AS_SET.map((name) => [name, generation[name]])) as unknown as AsSet;

/** What a stream added, each token where the engine counted it. Without requested logprobs, `logprobs` is empty. */
export interface Delta {
  token_ids: number[];
  logprobs: number[];
  /** One entry for each token, if requested. */
  top_logprobs?: TopLogprobs;
  /** Text lags ids: it is held back for stop strings and unfinished UTF-8. */
  text: string;
  /** The engine ended the generation with these tokens. Later events can only reveal an error. */
  finish?: Finish;
}

export function addTo(
  before: Delta,
  { token_ids, logprobs, top_logprobs, text, finish }: Delta,
): void {
  for (const id of token_ids) before.token_ids.push(id);
  for (const logprob of logprobs) before.logprobs.push(logprob);
  for (const top of top_logprobs ?? []) (before.top_logprobs ??= []).push(top);
  before.text += text;
  if (finish !== undefined) before.finish = finish;
}

/** The engine counted other tokens than those that came: none of the request is trusted. */
export class Miscount extends Fault {}

/** The engine cut a request off, and has said which weights sampled what it had by then. */
export class CutOff extends Fault {
  readonly spans: VersionSpan[];

  constructor(facts: ConstructorParameters<typeof Fault>[0], spans: VersionSpan[]) {
    super(facts);
    this.spans = spans;
  }
}

/** How a generation ended. All its tokens have gone through `onDelta`. */
export interface GenerationEnd extends Finish {
  /** Seconds from sending the request to its first token (to its end without one): the engine's queue and prefill. */
  queue_s: number;
  /** Seconds from the first token to the end; 0 without one. */
  generate_s: number;
  /** Which weights sampled which tokens; absent: this wire does not say. */
  spans?: VersionSpan[];
}

/** Tokens from `start` up to but excluding `end`. */
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

/** One replica. Methods throw faults: `GenerationUnavailable`, `GenerationRejected`, `ProtocolError`. */
export interface GenerationService extends Renderer {
  /** The base URL, as in journals and rows. */
  readonly replica: string;
  /** false: its streams contain only ids, and text comes from `detokenize`. Absent: they contain text. */
  readonly tells_text?: (request?: Pick<GenerationRequest, 'pictures'>) => boolean;
  /** The answer's end says which weights sampled each token, so that it may survive an update. Absent: it never does. */
  readonly names_spans?: (request: Pick<GenerationRequest, 'pictures' | 'stop_strings'>) => boolean;
  /** Absent: its engines take no pictures. */
  readonly pictures?: PictureRoute;
  /** Resolves when the engine is ready to generate. Checks health, then asks for models and version. */
  describe(signal: AbortSignal): Promise<ServiceDescription>;
  /**
   * A prompt that alone fills the engine's context gives an empty generation with finish `length`. If less than
   * `max_tokens` fits, the request gets what is left.
   */
  generate(request: GenerationRequest, context: GenerateContext): Promise<GenerationEnd>;
  /**
   * Ids that the chat template adds for a message after the policy's answer: the end of the answer's turn, the message,
   * the generation prompt. Throws `GenerationRejected` if the template does not render its role.
   */
  renderTurn(
    turn: { model: string; message: ChatMessage; chat_template_kwargs: ForeignObject },
    signal: AbortSignal,
  ): Promise<number[]>;
  /** Logprobs of all prompt tokens but the first, before temperature and filters. It samples a token, unused. */
  promptLogprobs(
    prompt: { model: string; prompt_ids: readonly number[] },
    signal: AbortSignal,
  ): Promise<number[]>;
  /** The version of the weights that the server samples from; null if it does not report one. */
  weightVersion(signal: AbortSignal): Promise<string | null>;
  /**
   * While an engine is paused, it accepts requests and they hang; also while it is asleep. False if the server cannot
   * tell or does not answer. Never throws.
   */
  isPaused(): Promise<boolean>;
  /** An engine that is asleep has moved its weights out of the way, and someone must wake it. As `isPaused`. */
  isAsleep(): Promise<boolean>;
  /** Settings of a batch that its engine cannot honour; absent: it honours all. The engine computes nothing for it. */
  limits?(
    generation: GenerationSettings,
    signal: AbortSignal,
  ): Promise<{ refused: Limit[]; notes: string[] }>;
  /** Drops all connections; requests in flight fail. */
  close(): Promise<void>;
}

export interface Limit {
  field: string;
  what: string;
}

export type Chat = Parameters<Renderer['renderChat']>[0];

/** Ids of rendered messages, and which of them stand for their pictures, in reading order. */
export interface Rendering {
  token_ids: number[];
  places: Place[];
}

/** How an engine takes pictures together with ids. */
export interface PictureRoute {
  /** Why it does not, with the remedy; null: it does. Asks the engine. Throws `GenerationUnavailable`. */
  refusal(model: string, signal: AbortSignal): Promise<string | null>;
  /** As `renderChat`. */
  render(chat: Chat, signal: AbortSignal): Promise<Rendering>;
  /** As `renderTurn`; places count from the first of its ids. */
  renderTurn(
    turn: Parameters<GenerationService['renderTurn']>[0],
    signal: AbortSignal,
  ): Promise<Rendering>;
}

export interface ReplicaRequest {
  /** The rollout id: requests of one rollout go to one replica while it is healthy and has room. */
  session_id: string;
  /** Ends the wait for a slot. Its abort is never the replica's fault. */
  signal: AbortSignal;
  /** Generations take a slot of the replica; small requests beside them do not. */
  is_generation: boolean;
  /**
   * Another program wrote this small request, which may be at fault itself: if two replicas answer 500, it is
   * `GenerationRejected`. Absent: false.
   */
  is_suspect?: boolean;
  /** Called while no replica serves: with the reason after one second, and with null when that is over. */
  unserved?: (why: string | null) => void;
  sharer?: Sharer;
}

/** Whether a result shows that the replica works; absent: any does. */
export interface Proof<T> {
  proves?: (result: T) => boolean;
}

/** A batch or a stream, which shares the slots of replicas with others. */
export interface Sharer {
  id: string;
  /** 1 comes first. */
  priority: number;
  /** Relative to others of the same priority. */
  share: number;
}

/** All that say nothing of themselves. */
export const NOBODY: Sharer = { id: '', priority: 3, share: 1 };

/** The replica's entry in the policy record when the request was sent. */
export interface Fence {
  version: number | null;
  adapter: NamedAdapter | null;
  epoch: number;
  /** The record's epoch at that time. */
  record_epoch: number;
}

/** Readings of a service's policy record; both throw `StoreFault`. */
export interface PolicyReading {
  /** The current record, no older than the call; null: nothing was ever published. */
  latest: () => Promise<PolicyRecord | null>;
  at: (epoch: number) => Promise<PolicyRecord | null>;
}

export interface Lease {
  /** null: nothing was published when the request was sent. */
  fence: Fence | null;
  policy: PolicyReading;
  /** Seconds of waiting for a slot. */
  waited_s: number;
  /** Resolves once the replica no longer says that it is paused; rejects with the signal's reason. */
  pauseOver: (signal: AbortSignal) => Promise<void>;
  /** The mode of its logprobs. Rejects with the signal's reason, or if the replica is unavailable. */
  logprobsMode: LogprobsModeOf;
}

/**
 * Asks each replica and model once. Asks again after the replica was away or its weights have changed, some time after
 * an answer (sooner after an inconclusive one), or on demand.
 */
export type LogprobsModeOf = (
  model: string,
  options: { signal: AbortSignal; again?: boolean },
) => Promise<LogprobsMode>;

export interface DescribedReplica extends ServiceDescription {
  replica: string;
}

export interface Replicas {
  /**
   * Calls `run` once, with the replica chosen for the request. A generation holds its slot until `run` ends. Errors of
   * `run` are rethrown, and a `GenerationUnavailable` keeps later requests away from that replica for a while.
   */
  request: <T>(
    request: ReplicaRequest & Proof<T>,
    run: (service: GenerationService, lease: Lease) => Promise<T>,
  ) => Promise<T>;
  /** Asks each replica. Returns at least one description, of those that answer; throws the first fault if none does. */
  describe: (signal: AbortSignal) => Promise<DescribedReplica[]>;
  /** The same with a question of the caller, for which the engine does not compute, while a batch is planned. */
  askEach: AskReplicas;
  /**
   * The same with a question that depends on the weights, or for which the engine computes: only replicas that serve are
   * asked. An engine that is half loaded would end at such a request. Returns no answer if none serves.
   */
  askServing: AskReplicas;
  /** Reads the record: which replicas have joined, left, or have other weights. Throws `StoreFault`. */
  look: () => Promise<void>;
}

export type Question<T> = (
  service: GenerationService,
  lease: Pick<Lease, 'logprobsMode' | 'fence'>,
) => Promise<T>;

type AskReplicas = <T>(
  question: Question<T>,
  signal: AbortSignal,
) => Promise<{ replica: string; answer: T }[]>;
