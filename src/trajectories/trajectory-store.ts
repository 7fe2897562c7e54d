import type { BatchRequest, RolloutRef } from '../model/batch-request.js';
import type { StoredRequest, StreamRequest } from '../model/stream/stream-request.js';
import type { Formats } from '../model/results/arrow/formats.js';
import type { ArrowRow } from '../model/results/arrow/columns.js';
import type { Glance } from '../model/journal/glance.js';
import type { Entry, JournalLine, LineOf } from '../model/journal.js';
import type { Sample } from '../model/sample.js';
import type { GroupFiles } from '../model/workflow-safe/groups.js';
import type { RowRange } from '../model/workflow-safe/slices.js';
import type { Trajectory } from '../model/journal/trajectory.js';

/** Ids of a worker's store, and of the folder of its results if that is another; null: not known, or none. */
export interface StoreIds {
  store: string | null;
  results: string | null;
}

/**
 * The store of trajectories. Methods throw `StoreFault`s for storage errors, and `InvalidBatchRequest` if the batch is
 * not the expected one (another request under its id).
 */
export interface TrajectoryStore {
  /** Its place, for people: a folder, or a database's address. */
  readonly name: string;
  /** Creates the batch, or finds it as it is: request and samples are put once. Returns whether it existed before. */
  createBatch(batch: {
    batch_id: string;
    request: BatchRequest | StreamRequest;
    /** Raw JSON of each sample, in order. */
    samples: readonly string[];
  }): Promise<{ existed: boolean }>;
  /**
   * Reopens a closed batch. It removes metrics.json first, then the parts of an earlier closing pass and the groups
   * that were handed out.
   */
  reopenBatch(batchId: string): Promise<void>;
  /** All batches and streams, in no order. */
  listBatches(): Promise<StoredBatch[]>;
  findRequest(batchId: string): Promise<StoredRequest | null>;
  readSample(ref: { batch_id: string; row: number }): Promise<Sample>;
  /** Its raw JSON, as the batch was created with it. */
  readSampleText(ref: { batch_id: string; row: number }): Promise<string>;
  sampleCount(batchId: string): Promise<number>;
  /** Claims the journal: only this writer's lines count until someone else claims it. */
  claim(ref: RolloutRef, by: Claimant): Promise<Journal>;
  /** The current journal, without claiming it. `take` gets the lines that count, each after it was folded in. */
  readTrajectory(ref: RolloutRef, take?: TakeFolded): Promise<Trajectory>;
  /**
   * The standing end, with what lists show of the rollout, from the journal's last lines alone. null if they do not
   * show it; the full trajectory does, if there is one.
   */
  findEnd(ref: RolloutRef): Promise<GlancedEnd | null>;
  /**
   * The journal's last lines: everything since the last answer of an environment, but of each answer's tokens only the
   * last ones. [] if there is none.
   */
  readLastLines(ref: RolloutRef): Promise<JournalLine[]>;
  /** The first of the two if there is one, else the second, from one reading. */
  findEndOrLastLines(ref: RolloutRef): Promise<GlancedEnd | JournalLine[]>;
  /** The rollouts that have a journal, in no order, in one listing. */
  listJournals(batchId: string): Promise<{ row: number; repeat: number }[]>;
  /** Size of a journal in bytes, 0 if there is none. A follower of a batch reads only journals that grew. */
  journalSize(ref: RolloutRef): Promise<number>;
  /** The batch's result files, written by a closing pass. */
  outputs(batchId: string): BatchOutputs;
  stepOutputs(place: { stream_id: string; step: number }): StepOutputs;
  /**
   * Deletes the journals of these rows, even if someone has them open: nobody reads them again. `repeats`: how many
   * there may be.
   */
  forgetJournals(rows: {
    batch_id: string;
    rows: readonly number[];
    repeats: number;
  }): Promise<void>;
  readonly facts: Facts;
  /** Its own name: workers with the same id have the same store. Made by the first who asks. */
  storeId(): Promise<string>;
}

export interface StoredBatch {
  batch_id: string;
  /** When it was created, in milliseconds since 1970; null: the store does not know. */
  created_ms: number | null;
}

export type TakeFolded = (line: JournalLine, trajectory: Trajectory) => void;

export type GlancedEnd = LineOf<'end'> & { glance: Glance };

export interface OpenStore {
  store: TrajectoryStore;
  /**
   * Resolves when the store is usable. It waits up to five minutes for an unavailable database, and says so, unless
   * `signal` aborts. Throws problems that need a person.
   */
  ready: (options: { say: (line: string) => void; signal?: AbortSignal }) => Promise<void>;
  /** Does once what a worker does, and leaves nothing. A folder is tried by `tryToWrite`. Throws what is in the way. */
  tryOut: () => Promise<void>;
  /**
   * Its id and, with `results`, that of the folder of results if it is another place. `make`: puts those that do not
   * exist yet.
   */
  ids: (options: { make: boolean; results: boolean }) => Promise<StoreIds>;
  /** The secret of programs' keys. The first who asks makes it; only the worker's user reads it. */
  keySecret: () => Promise<string>;
  close: () => Promise<void>;
}

/**
 * Facts, which are put once and never change. They are numbered in series, from 0. Of several writers of the next
 * number, one succeeds, and the others read its fact.
 */
export interface Facts {
  /** true if the fact has this text, whoever wrote it; false if it has another. */
  put(fact: Fact): Promise<boolean>;
  find(series: Series, n: number): Promise<string | null>;
  /**
   * The last fact above number `known` (-1: of all), no older than the call; null if there is none. Above a `known` that
   * is there must be no gaps.
   */
  last(series: Series, known: number): Promise<Fact | null>;
  /** All facts above a known number of each of these series without gaps, those of a series in order. */
  news(of: readonly { series: Series; known: number }[]): Promise<Fact[]>;
  /** Deletes facts that nobody needs again. Nothing prevents that their numbers are put once more. */
  forget(series: Series, numbers: readonly number[]): Promise<void>;
}

/** From the outermost name inwards: letters, digits, `.`, `_`, `:` and `-`, without a leading dot. */
export type Series = readonly [string, ...string[]];

export interface Fact {
  series: Series;
  n: number;
  text: string;
}

/** The attempt that claims a journal. By default it is the first, and reopens nothing. */
export type Claimant = Pick<LineOf<'claim'>, 'activity'> &
  Partial<Omit<LineOf<'claim'>, 'kind' | 'writer' | 'at' | 'activity'>>;

/** A rollout's journal, as one attempt has claimed it. */
export interface Journal {
  readonly writer: string;
  /** Everything before the claim, plus what was appended since. */
  readonly trajectory: Trajectory;
  /** Upper bound of the memory that the trajectory takes now, in bytes. */
  takenBytes(): number;
  /**
   * Appends one line and folds it in. The line survives this process at once, or within some hundredths of a second.
   */
  append(entry: Entry): Promise<void>;
  /**
   * Throws like `commit` if it shows already that another attempt has claimed the journal; costs microseconds. A
   * database shows it with the row after the claim.
   */
  stillOurs(): Promise<void>;
  /**
   * Resolves when what was appended is stored and the journal was still this attempt's then; throws like `commit`. It
   * survives this process, not a power cut. Costs microseconds in files.
   */
  stored(): Promise<void>;
  /**
   * Makes the lines durable and checks that no one else has claimed the journal; if someone has, it throws a retryable
   * `StoreFault`. Call it before the activity reports anything.
   */
  commit(): Promise<void>;
  /** The same in between, for an attempt that continues with something that only the journal's owner may do. */
  sync(): Promise<void>;
  /**
   * Releases the journal without a guarantee, for attempts that fail. Appended lines stay if the storage still accepts
   * them.
   */
  release(): Promise<void>;
}

export interface ResultFiles {
  rollouts: string;
  failures: string;
  groups: string;
  metrics: string;
  sequences?: string;
}

/** The parts that slices close on their own, and the whole that the batch joins from them. */
export interface BatchOutputs {
  readonly files: ResultFiles;
  isClosed(part: RowRange): Promise<boolean>;
  /** Writes a part row by row, from `resume` on if a predecessor stopped there. */
  openPart(part: RowRange, resume: PartPosition | null): Promise<PartWriter>;
  /** Joins closed parts, in order, into rollouts.jsonl, rollouts.arrow and failures.jsonl; returns their summary lines. */
  join(parts: readonly RowRange[]): Promise<string[]>;
  /**
   * Writes all of rollouts.jsonl into a file elsewhere, in either form. `completed`: how many rows it has, by
   * metrics.json; another number is a `StoreFault`.
   */
  exportRollouts(to: { file: string; format: Formats[number]; completed: number }): Promise<void>;
  /** The lines of rollouts.jsonl, in order, once the parts are joined. */
  readRollouts(): AsyncIterable<string>;
  /**
   * Puts the rows of ended groups, from place `from` up to `to` in the order of their end, and returns where they are.
   * They are put once: what an earlier attempt wrote stays.
   */
  putGroups(
    places: { from: number; to: number },
    lines: () => AsyncIterable<string>,
  ): Promise<GroupFiles>;
  putGroupTable(lines: Iterable<string>): Promise<void>;
  /**
   * metrics.json, last: its presence means that the batch is closed. Returns what stands there: where nothing may be
   * replaced, another attempt's result if that was earlier.
   */
  putMetrics<T extends object>(result: T): Promise<T>;
  readMetrics(): Promise<unknown>;
}

export interface StepOutputs extends BatchOutputs {
  /** Deletes its rows, its metrics, and what an interrupted closing pass has left. */
  forget(): Promise<void>;
}

export interface Outputs extends StepOutputs {
  reopen(): Promise<void>;
}

/** The position of a closing attempt, small enough for a heartbeat. */
export interface PartPosition {
  attempt: string;
  /** Rollouts written, in manifest order. */
  written: number;
  /** Bytes; of sequences always the end of a record batch. */
  offsets: { rollouts: number; failures: number; summaries: number; sequences?: number };
}

export interface WrittenRollout {
  row: string;
  summary: string;
  valid: boolean;
  /** The row's sequences, as rollouts.arrow has them. */
  sequences: () => readonly ArrowRow[];
}

export interface PartWriter {
  /** The last one at which all files had the same rollouts. */
  readonly position: PartPosition;
  write(rollout: WrittenRollout): Promise<void>;
  /** Syncs and gives the files their final names. */
  close(): Promise<void>;
  abandon(): Promise<void>;
}
