import type { CacheRule, PauseMode, Weights } from '../model/policy/publish.js';

/**
 * What a workflow does to one replica's engine to change its weights. Every call is bounded and every answer checked;
 * methods throw faults: `GenerationUnavailable` (with a status where the engine did answer), `GenerationRejected`,
 * `ProtocolError`, or the signal's reason.
 */
export interface WeightControl {
  /** The base URL, as records, journals and rows name the replica. */
  readonly replica: string;
  /** Asks without touching anything; a key that is refused is `GenerationRejected`. */
  examine(needs: { cache: CacheRule }, bound: Bound): Promise<Examination>;
  pause(how: { mode: PauseMode; cache: CacheRule }, bound: Bound): Promise<void>;
  /** What runs or waits is cut off; it stays paused. */
  cutOff(bound: Bound): Promise<void>;
  load(weights: Weights, bound: Bound): Promise<void>;
  /** What `/weight_info` and the spans of a stream say from here on; read back. Does nothing where the server has no label. */
  label(label: string, bound: Bound): Promise<void>;
  resetCache(bound: Bound): Promise<void>;
  resume(bound: Bound): Promise<void>;
  /** Of each token of the prompt but the first. */
  promptLogprobs(prompt_ids: readonly number[], bound: Bound): Promise<number[]>;
  /** Drops its connections. */
  close(): Promise<void>;
}

export interface Bound {
  within_ms: number;
  signal: AbortSignal;
}

export interface Examination {
  /** What an update needs and the server has not, by name; none: it can be updated. */
  lacks: string[];
  /** false: a process that replaces it behind the same URL cannot be told from it. */
  tells_label: boolean;
}
