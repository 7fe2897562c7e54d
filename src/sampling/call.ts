import type {
  Fence,
  GenerationService,
  Lease,
  Replicas,
  Sharer,
} from '../generation/generation-service.js';
import type { Fault } from '../model/faults.js';
import type { Entry, RolloutSettings } from '../model/journal.js';
import type { Sampled } from '../model/journal/open-answers.js';
import type { PlacedPicture } from '../model/pictures.js';

/** An answer to be sampled: a turn's, or that of a program's call. */
export interface Call {
  /** The number under which the answer's lines stand in the journal. */
  turn: number;
  prompt_ids: readonly number[];
  /** Which of them stand for pictures; called once a replica serves, because pictures are large. Absent: none do. */
  pictures?: () => Promise<readonly PlacedPicture[]>;
  /**
   * How many tokens the answer may have. With 0 or less it is empty, with finish `length`, and no request is made. It may
   * change meanwhile: a smaller room ends the answer there, a larger one lets it go on.
   */
  readonly room: number;
  /** Stop strings, each once. */
  stops: readonly string[];
  settings: Pick<RolloutSettings, 'generation' | 'model' | 'policy_version' | 'max_version_span'>;
  request_id: string;
  /** Calls of one session go to one replica while it is healthy and has room. */
  session_id: string;
  sharer: Sharer;
  /** The seed of a request that continues after so many tokens; null: none. */
  seed: (inherited: number) => number | null;
  /**
   * How many of the answer's tokens a program has seen. These are never dropped: the answer always continues them.
   * Called again whenever tokens are to be dropped.
   */
  said: () => number;
  /** A program reads along, so the first tokens are written at once. */
  is_read?: boolean;
  /** Its text has special tokens, also those that end it. */
  shows_special_tokens?: true;
  /**
   * Tokens that have ended an answer like this one as neither stop string nor stop token id. No server lists them. Only
   * an interrupted answer asks.
   */
  eos_ids: () => ReadonlySet<number>;
}

/** What a call needs of its journal. */
export interface Tape {
  open: () => Sampled;
  append: (line: Extract<Entry, { kind: 'chunk' | 'generation' }>) => Promise<void>;
  /** Resolves when what was appended is stored and the journal was still ours then; else throws a `StoreFault`. */
  stored: () => Promise<void>;
}

/** The replicas, and what is done about one that has other weights than the record says. */
export interface Pool extends Pick<Replicas, 'request'> {
  special_tokens: readonly string[];
  distrust: (replica: string, found: { fence: Fence; why: string }) => Promise<void>;
}

/** Shows people why there is no answer yet. */
export interface Waits {
  /** The replica may be paused, so it is asked before anything is sent. */
  mayBePaused?: boolean;
  /** No replica serves, with the reason; null: one does. */
  unserved: (why: string | null) => void;
  /** The replica is paused; null: that is over. */
  paused: (at: { service: string; message: string } | null) => Promise<void>;
  /** Asks the engine, whose silence `why` explains. */
  asks: <T>(why: () => Promise<string | null>, answer: () => Promise<T>) => Promise<T>;
}

export interface Means {
  tape: Tape;
  pool: Pool;
  waits: Waits;
  signal: AbortSignal;
}

/** How a request ends without an answer and without a fault. */
export type Exit = 'moved' | 'starts_over';

/**
 * `sampled`: the journal has the answer's `generation` line. `moved`: the replica changes its weights, or the room has
 * changed; the answer continues on any replica that serves. `starts_over`: it would mix more versions than the batch
 * allows, and its tokens have been dropped. The caller samples again, or decides what the fault means.
 */
export type Outcome = 'sampled' | Exit | { failed: Fault };

/** A call at the replica that was chosen for it. */
export interface Placed extends Means {
  service: GenerationService;
  lease: Lease;
  /** How long it has waited for the replica and through its pauses. */
  waited_s: number;
}
