import { describeError } from '../../../src/platform/errors.js';
import type { AgentOutcome } from './agent-outcome.js';
import { absenceOf, agentOutcomeOf, attemptOf } from './agent-outcome.js';
import type { TrajectoryStore } from '../../../src/trajectories/trajectory-store.js';
import type { GymRow } from '../../row.js';
import { rolloutName } from '../../row.js';
import type { ResultFile, ResultKey } from '../results/result-file.js';
import { attemptName } from '../results/result-file.js';
import type { Routed, RunFailure } from './routing.js';
import { routeAnswer, routeFailure, routedLine } from './routing.js';

export interface FollowerOptions {
  store: Pick<TrajectoryStore, 'listJournals' | 'journalSize' | 'readTrajectory'>;
  batch_id: string;
  /** Row k of the batch, and how often it had failed before. */
  rows: readonly GymRow[];
  main: ResultFile;
  failures: ResultFile;
  /**
   * Adds captured data to an answer before it is written; absent: nothing. Data from before `since` (seconds since the
   * epoch) belongs to a run that was cut.
   */
  attach?: (routed: Routed, since: number | null) => Promise<void>;
  /** Called with each result, in completion order, after it is written. */
  onRouted: (routed: Routed) => void;
}

export interface RunningRow {
  row: GymRow;
  /** Seconds since the epoch. */
  since: number;
  attempt: number;
  /** Why it was not sent to its agent yet; null: it was. */
  waiting: string | null;
}

/** Characters of answers that a sweep keeps at once; further answers are read a second time. */
const KEPT_CHARACTERS = 32 * 1024 * 1024;

type Ended = Exclude<AgentOutcome, { kind: 'unfinished' }>;

/** A row's outcome, from a journal of this size. */
interface News {
  index: number;
  row: GymRow;
  size: number;
  outcome: Ended;
}

export type Follower = ReturnType<typeof createFollower>;

/** Reads a batch's journals and appends each ended row to the collection's files, once. */
export function createFollower(options: FollowerOptions) {
  const { store, batch_id, rows, attach } = options;
  const written = createWriter(options);
  const { look, outcomeOf, running, ended, sizes, tried } = createLooks(options);
  let looked_ms = 0;

  /**
   * Reads the journals that grew since the last sweep; returns how many results it wrote. An aborted sweep leaves the
   * rest to the next one. If some journals cannot be read, it writes the others and then throws.
   */
  const sweep = async (signal?: AbortSignal): Promise<number> => {
    const began = performance.now();
    const news: (Omit<News, 'outcome'> & { at: number; outcome: Ended | null })[] = [];
    const unread: unknown[] = [];
    let kept = 0;
    for (const { row: index, repeat } of await store.listJournals(batch_id)) {
      if (signal?.aborted === true) break;
      const row = rows[index];
      if (row === undefined || repeat !== 0 || written.hasResult(row)) continue;
      const found = await look(index, row).catch((error: unknown) => void unread.push(error));
      if (found == null) continue;
      const { at, text } = found.outcome;
      kept += text?.length ?? 0;
      news.push({ ...found, at, outcome: kept > KEPT_CHARACTERS ? null : found.outcome });
    }
    looked_ms = performance.now() - began;
    let count = 0;
    for (const { index, row, size, outcome } of news.toSorted((a, b) => a.at - b.at)) {
      if (signal?.aborted === true) break;
      const known = outcome ?? (await outcomeOf(index, row));
      if (known === null || known.kind === 'unfinished') continue;
      const routed = routeOutcome(row, known);
      if (known.text !== null) await attach?.(routed, known.since);
      if (await written.write(routed)) count += 1;
      // Only rows that are written need no further look.
      sizes.set(index, size);
    }
    const [first] = unread;
    if (unread.length > 0)
      throw new Error(`${unread.length} journals cannot be read: ${describeError(first)}`);
    return count;
  };

  return {
    sweep,
    /** How long the last sweep looked through the journals, before it wrote what had ended. */
    lookedMs: (): number => looked_ms,
    /** The longest first. */
    running: (): RunningRow[] => [...running.values()].toSorted((a, b) => a.since - b.since),
    /** Index of a row's next attempt. */
    nextAttempt: ({ key, attempt_index }: GymRow): number =>
      Math.max(attempt_index, (tried.get(rolloutName(key)) ?? -1) + 1),
    /** Whether every row has ended, with a result or a failure. */
    isWhole: (): boolean => rows.every((row, index) => ended.has(index) || written.hasResult(row)),
    /** Rows without a line in either file. */
    missing: (): GymRow[] =>
      rows.filter((row) => !written.hasResult(row) && !written.hasFailure(row)),
  };
}

/** Reads journals that grew, and remembers their content. */
function createLooks({ store, batch_id }: Pick<FollowerOptions, 'store' | 'batch_id'>) {
  /** Sizes of the journals that are completely written, by row. */
  const sizes = new Map<number, number>();
  const running = new Map<number, RunningRow>();
  const ended = new Set<number>();
  /** The last attempt of each row, by name. */
  const tried = new Map<string, number>();
  const outcomeOf = async (index: number, row: GymRow): Promise<AgentOutcome | null> => {
    const trajectory = await store.readTrajectory({ batch_id, row: index, repeat: 0 });
    const outcome = agentOutcomeOf(trajectory);
    const { lives, start } = trajectory;
    if (lives.length > 0) tried.set(rolloutName(row.key), attemptOf(trajectory));
    if (outcome !== null) {
      running.delete(index);
      if (outcome.kind !== 'unfinished') ended.add(index);
      return outcome;
    }
    ended.delete(index);
    // Before its first run it waits for its agent.
    const since = lives.at(-1)?.line.at ?? start?.at;
    const attempt = lives.length > 0 ? attemptOf(trajectory) : row.attempt_index;
    const waiting = absenceOf(trajectory);
    if (since !== undefined) running.set(index, { row, since, attempt, waiting });
    return null;
  };
  /** null: its journal did not grow since the last look, or has nothing to write. */
  const look = async (index: number, row: GymRow): Promise<News | null> => {
    const size = await store.journalSize({ batch_id, row: index, repeat: 0 });
    if (size === 0 || sizes.get(index) === size) return null;
    const outcome = await outcomeOf(index, row);
    if (outcome !== null && outcome.kind !== 'unfinished') return { index, row, size, outcome };
    sizes.set(index, size);
    return null;
  };
  return { look, outcomeOf, running, ended, sizes, tried };
}

/** Appends what the files lack. */
function createWriter({ main, failures, onRouted }: FollowerOptions) {
  const nameOf = (to: Routed['to'], { key, attempt }: ResultKey): string =>
    to === 'main' ? rolloutName(key) : `${to} ${attemptName({ key, attempt })}`;
  const written = new Set([
    ...main.found.map((found) => nameOf('main', found)),
    ...failures.found.map((found) => nameOf('failures', found)),
  ]);
  const failedRows = new Set(failures.found.map(({ key }) => rolloutName(key)));
  return {
    hasResult: ({ key }: GymRow): boolean => written.has(rolloutName(key)),
    hasFailure: ({ key }: GymRow): boolean => failedRows.has(rolloutName(key)),
    /** Returns whether it was new. */
    write: async (routed: Routed): Promise<boolean> => {
      const { to, attempt, row } = routed;
      const name = nameOf(to, { key: row.key, attempt });
      if (written.has(name)) return false;
      if (to !== 'nowhere') await { main, failures }[to].append(routedLine(routed));
      written.add(name);
      if (to === 'failures') failedRows.add(rolloutName(row.key));
      onRouted(routed);
      return true;
    },
  };
}

/** The entry for a rollout's end in upstream's files. An answer that cannot be stamped affects only its own row. */
function routeOutcome(row: GymRow, outcome: Ended): Routed {
  const { attempt, text } = outcome;
  const failure = failureOf(outcome);
  if (text === null) return routeFailure({ row, attempt, failure });
  try {
    const answered = routeAnswer({ row, attempt, text });
    // An answer that reports no failure, but has no usable reward.
    const isUnsaid = outcome.kind === 'failure' && answered.to === 'main';
    if (!isUnsaid) return answered;
    return routeFailure({ row, attempt, failure, answer: answered.result });
  } catch (error) {
    const message = `${failure.message} (${describeError(error)})`;
    return routeFailure({ row, attempt, failure: { ...failure, message } });
  }
}

/** A failure has a class unless it must not be written. */
const failureOf = (outcome: Ended): RunFailure =>
  outcome.kind === 'failure'
    ? { ...outcome, failure_class: outcome.failure_class ?? 'agent_run_error' }
    : {
        failure_class: 'agent_run_error',
        terminal: false,
        type: null,
        message: 'the answer cannot be written',
        status: null,
      };
