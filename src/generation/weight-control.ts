import type { LogprobsMode } from '../model/logprobs-mode.js';
import type { CacheRule, PauseMode, Weights } from '../model/policy/orders.js';
import type { EngineIdentity } from '../model/policy/record.js';
import type { SleepLevel } from '../model/workflow-safe/policy-states.js';

/**
 * The calls with which a workflow changes the weights of one replica's engine. Every call is bounded, and every answer
 * is checked. Methods throw faults: `GenerationUnavailable` (with a status if the engine answered),
 * `GenerationRejected`, `ProtocolError`, or the signal's reason.
 */
export interface WeightControl {
  readonly replica: string;
  readonly remedies: Remedies;
  readonly control_url: string;
  /**
   * What it is, whatever its weights; it computes nothing for the answer. `GenerationRejected` if several engines answer
   * at the URL, or if it has no such model (null: its first).
   */
  identify(given: { model: string | null }, bound: Bound): Promise<EngineIdentity>;
  /**
   * What the one engine at the URL says of its weights, in questions on connections of their own; null: it has no label.
   * `GenerationRejected` if several engines answer; `starts`: also if only their processes' starts differ.
   */
  asOne(given: { starts: boolean }, bound: Bound): Promise<string | null>;
  /** What tells its process from others, the second growing with its work; null: its metrics do not say. */
  processSign(bound: Bound): Promise<{ started: string; cpu_s: number } | null>;
  settings(bound: Bound): Promise<EngineSettings>;
  /** The mode of its logprobs. It computes: never ask an engine whose weights are not known to be whole. */
  logprobsMode(model: string, bound: Bound): Promise<LogprobsMode>;
  /**
   * Asks without changing anything. A refused key is `GenerationRejected`, and so is an engine that is asleep, unless
   * its sleep is `ours`. `sleep`: it has to be able to.
   */
  examine(
    needs: { cache: CacheRule; weights?: Pick<Weights, 'kind'>; sleep?: 'able' | 'ours' | null },
    bound: Bound,
  ): Promise<Examination>;
  pause(how: { mode: PauseMode; cache: CacheRule }, bound: Bound): Promise<void>;
  /** Cuts off running and waiting requests; the engine stays paused. */
  cutOff(bound: Bound): Promise<void>;
  load(weights: Weights, bound: Bound): Promise<void>;
  /** Sets what `/weight_info` and spans say from here on, and reads it back. Does nothing if there is no label. */
  label(label: string, bound: Bound): Promise<void>;
  /** What the engine says of its weights; null: it has no label. */
  said(bound: Bound): Promise<string | null>;
  resetCache(bound: Bound): Promise<void>;
  resume(bound: Bound): Promise<void>;
  /** Questions that need no computing. An engine that waits inside a transfer answers only `isUp`. */
  paused(bound: Bound): Promise<boolean>;
  isUp(bound: Bound): Promise<boolean>;
  worldSize(bound: Bound): Promise<number>;
  /** Ends a transfer that its sender has left, without a label, so that the engine takes weights again. */
  closeTransfer(bound: Bound): Promise<void>;
  adapters(bound: Bound): Promise<string[]>;
  /** Beside the others. Nothing is paused. */
  loadAdapter(adapter: { name: string; path: string }, bound: Bound): Promise<void>;
  /** Does nothing if it is not there. */
  unloadAdapter(name: string, bound: Bound): Promise<void>;
  /** One for each token of the prompt except the first, of its weights or of an adapter. */
  promptLogprobs(
    prompt_ids: readonly number[],
    bound: Bound & { adapter?: string },
  ): Promise<number[]>;
  /** Cuts off what runs, and leaves its memory to others. Again does nothing. */
  sleep(level: SleepLevel, bound: Bound): Promise<void>;
  /** null: all of its memory, and it samples again. With weights alone it stays paused. Again does nothing. */
  wakeUp(tag: 'weights' | null, bound: Bound): Promise<void>;
  isAsleep(bound: Bound): Promise<boolean>;
  close(): Promise<void>;
}

export interface Bound {
  within_ms: number;
  signal: AbortSignal;
}

/** null: it does not say it. */
export interface EngineSettings {
  /** By which weights can be sent to it; `none`: it was started without one. */
  backend: string | null;
  /** The cache's type, as it was asked for: `auto`, `fp8`. */
  cache_dtype: string | null;
  /** At which levels it can sleep; empty: it was started without a way to. */
  sleep_levels: readonly SleepLevel[] | null;
  /** How many adapters it has room for at once; 0: it was started without them. */
  adapter_places: number | null;
}

export interface Examination {
  /** What an update needs and the server lacks, by name; empty: it can be updated. */
  lacks: string[];
  /** false: a process that replaces it behind the same URL cannot be detected. */
  tells_label: boolean;
}

/** What people are told about an engine of this kind. */
export interface Remedies {
  name: string;
  /** The versions that the tests against real engines have. */
  tested: readonly string[];
  /** When it has no routes that change its weights. */
  no_control: string;
  /** What it has to be started with to do more than sample. `routes`: those that change weights. */
  flags: Readonly<Record<'routes' | 'adapters' | 'places' | 'sent' | 'sleep' | 'images', string>>;
}
