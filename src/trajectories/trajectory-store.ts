import type { BatchRequest, RolloutRef } from '../model/batch-request.js';
import type { StoredRequest, StreamRequest } from '../model/stream/stream-request.js';
import type { Glance } from '../model/glance.js';
import type { Entry, JournalLine, LineOf } from '../model/journal.js';
import type { TurnLimits } from '../model/workflow-safe/limits.js';
import type { Sample } from '../model/sample.js';
import type { RowRange } from '../model/workflow-safe/slices.js';
import type { Trajectory } from '../model/trajectory.js';

/**
 * Where trajectories live. Methods throw `StoreFault`s for what the storage does wrong; a batch that is not what the
 * caller thinks (another request under its id) is `InvalidBatchRequest`.
 */
export interface TrajectoryStore {
  /**
   * Creates the batch, or finds it as it is: request and samples are put once. Returns whether it was there before.
   */
  createBatch(batch: {
    batch_id: string;
    request: BatchRequest | StreamRequest;
    /** Raw JSON of each sample, in order. */
    samples: readonly string[];
  }): Promise<{ existed: boolean }>;
  /** Opens a closed batch again: its metrics.json goes first, then the parts of an earlier closing pass and the groups that were handed out. */
  reopenBatch(batchId: string): Promise<void>;
  /** null where there is no such batch or stream. */
  findRequest(batchId: string): Promise<StoredRequest | null>;
  readSample(ref: { batch_id: string; row: number }): Promise<Sample>;
  /** Its raw JSON, as the batch was created with it. */
  readSampleText(ref: { batch_id: string; row: number }): Promise<string>;
  sampleCount(batchId: string): Promise<number>;
  /** Claims the journal: from here on only this writer's lines count, until someone else claims it. */
  claim(ref: RolloutRef, by: Claimant): Promise<Journal>;
  /** The journal as it stands, without claiming it. `take` gets the lines that count, one by one, each once it is folded in. */
  readTrajectory(ref: RolloutRef, take?: TakeFolded): Promise<Trajectory>;
  /**
   * The end that stands, with what lists show of the rollout, from the journal's last lines alone; null where they do not
   * show it: the trajectory does, if there is one.
   */
  findEnd(ref: RolloutRef): Promise<GlancedEnd | null>;
  /** The journal's last lines: all since the last answer of an environment, but for tokens before the last ones. [] where there is none. */
  readLastLines(ref: RolloutRef): Promise<JournalLine[]>;
  /** The rollouts that have a journal, in no order: one listing, however many they are. */
  listJournals(batchId: string): Promise<{ row: number; repeat: number }[]>;
  /** Bytes of a journal as it stands, 0 where there is none: who follows a batch reads only journals that grew. */
  journalSize(ref: RolloutRef): Promise<number>;
  /** The batch's result files, written by a closing pass. */
  outputs(batchId: string): BatchOutputs;
  /** The same of one step of a stream. */
  stepOutputs(place: { stream_id: string; step: number }): StepOutputs;
  /** Deletes the journals of these rows, whoever has them open: nobody reads them again. `repeats`: how many there may be. */
  forgetJournals(rows: {
    batch_id: string;
    rows: readonly number[];
    repeats: number;
  }): Promise<void>;
  readonly facts: Facts;
}

export type TakeFolded = (line: JournalLine, trajectory: Trajectory) => void;

export type GlancedEnd = LineOf<'end'> & { glance: Glance };

/** A store and its connections. */
export interface OpenStore {
  store: TrajectoryStore;
  /** What tells it from another, for people too: a folder, or a database's place. */
  name: string;
  /**
   * Resolves when it can be used; a database that is away is waited for, aloud, for five minutes, or until `signal`
   * aborts. Throws what has to be put right.
   */
  ready: (options: { say: (line: string) => void; signal?: AbortSignal }) => Promise<void>;
  close: () => Promise<void>;
}

/**
 * What is put once and never changes. Facts are numbered in series, from 0: of several writers that put the next one, one
 * wins, and the others read what stands there.
 */
export interface Facts {
  /** True if this text stands there, by whoever's hand; false if another one does. */
  put(fact: Fact): Promise<boolean>;
  /** null where there is none of this number. */
  find(series: Series, n: number): Promise<string | null>;
  /** Of a series without gaps: the last one above number `known` (-1: of all), no older than the question; null where there is none. */
  last(series: Series, known: number): Promise<Fact | null>;
}

/** Names from the outside in: letters, digits, `.`, `_`, `:` and `-`, no dot in front. */
export type Series = readonly [string, ...string[]];

export interface Fact {
  series: Series;
  n: number;
  text: string;
}

/** Which attempt claims a journal. */
export interface Claimant {
  activity: string;
  /** Default 1, the first. */
  attempt?: number;
  reopen?: boolean;
  /** Changed while the rollout runs: in force from this claim on. */
  limits?: TurnLimits;
  /** Of a replacement: the repeat that failed. */
  replaces?: number;
}

/** One attempt's hold on a rollout's journal. */
export interface Journal {
  /** Unique to this attempt. */
  readonly writer: string;
  /** What stood before the claim, plus what was appended since. */
  readonly trajectory: Trajectory;
  /** Bytes of memory that the trajectory takes as it stands, at most. */
  held(): number;
  /** Appends one line and folds it in. It outlives this process a few hundredths of a second later, or at once. */
  append(entry: Entry): Promise<void>;
  /**
   * Makes the lines durable and checks that no one else has claimed the journal meanwhile; a retryable `StoreFault`
   * if someone has. To be called before the activity reports anything.
   */
  commit(): Promise<void>;
  /** The same in between: for an attempt that goes on to do what only the journal's owner may do. */
  sync(): Promise<void>;
  /** Lets go without a promise: for attempts that fail. What was appended stands where the storage still takes it. */
  release(): Promise<void>;
}

/** Where they are. */
export interface ResultFiles {
  rollouts: string;
  failures: string;
  groups: string;
  metrics: string;
}

/** The parts that slices close on their own, and the whole that the batch joins from them. */
export interface BatchOutputs {
  readonly files: ResultFiles;
  /** Is this part already closed, under its final names? */
  isClosed(part: RowRange): Promise<boolean>;
  /** Writes a part row by row, going on from `resume` where a predecessor stopped. */
  openPart(part: RowRange, resume: PartPosition | null): Promise<PartWriter>;
  /** Concatenates closed parts, in order, into rollouts.jsonl and failures.jsonl; yields their summary lines. */
  join(parts: readonly RowRange[]): Promise<string[]>;
  /** The lines of rollouts.jsonl, in order, once the parts are joined. */
  readRollouts(): AsyncIterable<string>;
  /**
   * Puts rows of groups that have ended, those from place `from` up to `to` in the order of their end, and returns where
   * they are. Put once: what an earlier attempt wrote stays as it is.
   */
  putGroups(
    places: { from: number; to: number },
    lines: () => AsyncIterable<string>,
  ): Promise<string>;
  /** groups.jsonl, whole. */
  putGroupTable(lines: Iterable<string>): Promise<void>;
  /** metrics.json, last: its presence means that the batch is closed. */
  putMetrics(result: unknown): Promise<void>;
}

export interface StepOutputs extends BatchOutputs {
  /** metrics.json, once it stands: then the step's rows never change. */
  readMetrics(): Promise<unknown>;
  /** Deletes its rows and metrics. */
  forget(): Promise<void>;
}

/** Where a closing attempt stood: small enough to be a heartbeat. */
export interface PartPosition {
  attempt: string;
  /** Rollouts written, in manifest order. */
  written: number;
  offsets: { rollouts: number; failures: number; summaries: number };
}

export interface PartWriter {
  readonly position: PartPosition;
  write(rollout: { row: string; summary: string; valid: boolean }): Promise<void>;
  /** Syncs and gives the files their final names. */
  close(): Promise<void>;
  abandon(): Promise<void>;
}
