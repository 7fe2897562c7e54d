import type { ChildWorkflowHandle } from '@temporalio/workflow';
import {
  ApplicationFailure,
  CancellationScope,
  ChildWorkflowFailure,
  ParentClosePolicy,
  WorkflowIdReusePolicy,
  condition,
  isCancellation,
  startChild,
  workflowInfo,
} from '@temporalio/workflow';
import type { RolloutResult, Tally } from '../../activities/contract.js';
import type { RolloutInput } from '../../model/batch-request.js';
import { rolloutId } from '../../model/workflow-safe/rollout-id.js';
import { VALID_STOP_REASONS } from '../../model/workflow-safe/stop-reasons.js';
import { OVERLONG, oneFailure, sumOf } from '../../model/workflow-safe/failures.js';
import type { LimitsChange } from '../../model/workflow-safe/limits.js';
import type { TaskPriority } from '../../model/workflow-safe/priority.js';
import type { RowRange } from '../../model/workflow-safe/slices.js';
import { failureOf } from '../ending.js';
import { roomProblem } from '../steering/event-budget.js';
import {
  LIMITS_MEMO,
  TIMEOUT_MEMO,
  inRounds,
  limitsSignal,
  stopSignal,
  unawaited,
} from '../steering/messages.js';
import type { rollout } from '../rollout.js';
import { watchGroups } from './ended-groups.js';
import { countGroups } from './min-k.js';
import type { Member } from './refill.js';
import { queueMembers } from './refill.js';
import { createStartInTurn } from './start-in-turn.js';

type RolloutHandle = ChildWorkflowHandle<typeof rollout>;

export interface Run {
  batch_id: string;
  rows: RowRange;
  num_repeats: number;
  /** How many may run at once, initially. */
  max_in_flight: number;
  /** The limit of one that nobody has opened yet; absent: its opening has it. */
  rollout_timeout?: string;
  /** Of their tasks; absent: that of this workflow. */
  priority?: TaskPriority;
  onChange: (tally: Tally) => void;
  /** Called once for each row whose group has ended. */
  onEnded: (row: number) => void;
  /** Called once for each rollout that becomes a row for the trainer. */
  onValid?: (result: RolloutResult) => void;
  /** A group with this many valid rollouts stops its other members; null: never. */
  k: number | null;
  /** How many failed rollouts are replaced by new repeats, initially; null: none, now or later. */
  max_replacements: number | null;
}

export interface RolloutRunner {
  /**
   * Starts rollouts in input order, replacements first, and none of a group that has enough. Resolves when no rollout
   * runs any more.
   */
  finished: Promise<void>;
  /** Starts no further rollout and stops those that run. */
  stop: () => void;
  setMaxInFlight: (maxInFlight: number) => void;
  /** Applies to running rollouts and to those that start later. */
  setLimits: (change: LimitsChange) => void;
  /** Row and repeat of each that runs; null: slices run them. */
  running: () => [row: number, repeat: number][] | null;
  /** Why an update cannot be accepted, since each costs events; null: it can. */
  roomProblem: (update: Steering) => string | null;
}

/** One of these. */
export interface Steering {
  limits?: LimitsChange;
  max_in_flight?: number;
}

export interface RowsRunner extends RolloutRunner {
  setMaxReplacements: (maxReplacements: number) => void;
}

export const NO_TALLY: Tally = {
  done: 0,
  running: 0,
  valid: 0,
  turns: 0,
  tokens: 0,
  reward_sum: 0,
};

/** Runs the rollouts of some rows as child workflows. A failed child is data and never fails its siblings. */
export function runRollouts({ onChange, onEnded, onValid, ...run }: Run): RowsRunner {
  const running = runningRollouts(onValid);
  const tally: Tally = { ...NO_TALLY };
  let { max_in_flight } = run;
  let limits: LimitsChange | null = null;
  let stopped = false;
  const groups = countGroups(run.k);
  const startInTurn = createStartInTurn();
  const line = queueMembers({ ...run, isOver: groups.hasEnough });
  const whole = watchGroups(line, onEnded);
  const announce = inRounds(running.limit);
  const playing = countPlaying(tally, onChange);

  const play = async (member: Member): Promise<void> => {
    const ref = { batch_id: run.batch_id, ...member };
    const isOver = (): boolean => stopped || groups.hasEnough(ref.row);
    playing.begins(member);
    try {
      const { given, handle } = await startInTurn(
        async () => {
          const now = limits;
          return { given: now, handle: await startRollout(ref, { ...run, limits: now }) };
        },
        { workflowId: rolloutId(ref), isOver },
      );
      if (isOver()) unawaited(handle.signal(stopSignal));
      else if (limits !== null && limits !== given) unawaited(handle.signal(limitsSignal, limits));
      const result = await running.resultOf(handle, ref.row);
      if (count(tally, result) && groups.count(ref.row)) running.stop(ref.row);
    } catch (error) {
      // The child's journal says what ended it. A child that could not even start is closed without a journal.
      if (countFailure(tally, { error, ref })) line.failed(member);
    } finally {
      playing.ends(member, whole.ended);
    }
  };

  // A running rollout may still fail and need a replacement.
  const next = async (): Promise<Member | null> => {
    await condition(
      () => stopped || (line.isEmpty() ? tally.running === 0 : tally.running < max_in_flight),
    );
    return stopped ? null : whole.next();
  };

  return {
    finished: playAll({ next, play, isIdle: () => tally.running === 0 }),
    stop: () => {
      stopped = true;
      running.stop();
    },
    setMaxInFlight: (now) => {
      max_in_flight = now;
    },
    setMaxReplacements: line.allow,
    setLimits: (change) => {
      limits = { ...limits, ...change };
      announce(change);
    },
    running: playing.places,
    // Running rollouts receive limits; `max_in_flight` does not concern them.
    roomProblem: (update) =>
      roomProblem(workflowInfo(), update.limits === undefined ? 0 : tally.running),
  };
}

/** Who plays, or is about to. */
function countPlaying(
  tally: Tally,
  onChange: Run['onChange'],
): {
  begins: (member: Member) => void;
  ends: (member: Member, ended: (row: number) => void) => void;
  places: () => [row: number, repeat: number][];
} {
  const members = new Set<Member>();
  return {
    begins: (member) => {
      members.add(member);
      tally.running += 1;
      if (member.replaces !== undefined) tally.replacements = (tally.replacements ?? 0) + 1;
      onChange({ ...tally });
    },
    ends: (member, ended) => {
      members.delete(member);
      tally.running -= 1;
      tally.done += 1;
      ended(member.row);
      onChange({ ...tally });
    },
    places: () => [...members].map(({ row, repeat }) => [row, repeat]),
  };
}

interface Running {
  /** Counts the child as running until it has ended. */
  resultOf: (child: RolloutHandle, row: number) => Promise<RolloutResult>;
  /** Stops those of one row; absent: all. */
  stop: (row?: number) => void;
  limit: (change: LimitsChange) => Promise<void>[];
}

function runningRollouts(onValid: Run['onValid']): Running {
  /** The row of each running child. */
  const rows = new Map<RolloutHandle, number>();
  return {
    resultOf: async (child, row) => {
      rows.set(child, row);
      try {
        const result = (await child.result()) as RolloutResult;
        if (isRow(result)) onValid?.(result);
        return result;
      } finally {
        rows.delete(child);
      }
    },
    stop: (row) => {
      for (const [child, own] of rows)
        if (row === undefined || row === own) unawaited(child.signal(stopSignal));
    },
    limit: (change) => [...rows.keys()].map((child) => child.signal(limitsSignal, change)),
  };
}

/**
 * Starts one after the other, when each may start. A cancellation ends the starting, but running rollouts are still
 * waited for.
 */
async function playAll({
  next,
  play,
  isIdle,
}: {
  next: () => Promise<Member | null>;
  play: (member: Member) => Promise<void>;
  isIdle: () => boolean;
}): Promise<void> {
  try {
    for (let member = await next(); member !== null; member = await next()) void play(member);
  } catch (error) {
    if (!isCancellation(error)) throw error;
  } finally {
    await CancellationScope.nonCancellable(() => condition(isIdle));
  }
}

function startRollout(
  ref: RolloutInput,
  {
    num_repeats,
    limits,
    rollout_timeout,
    priority,
  }: Pick<Run, 'num_repeats' | 'rollout_timeout' | 'priority'> & { limits: LimitsChange | null },
): Promise<RolloutHandle> {
  const memo = {
    ...(limits !== null && { [LIMITS_MEMO]: limits }),
    ...(rollout_timeout !== undefined && { [TIMEOUT_MEMO]: rollout_timeout }),
  };
  return startChild<typeof rollout>('rollout', {
    args: [ref],
    workflowId: rolloutId(ref),
    workflowIdReusePolicy: WorkflowIdReusePolicy.ALLOW_DUPLICATE,
    parentClosePolicy: ParentClosePolicy.TERMINATE,
    staticSummary: summaryOf(ref, num_repeats),
    ...(priority !== undefined && { priority }),
    ...(Object.keys(memo).length > 0 && { memo }),
  });
}

/** Counted from 0, as in its id. */
function summaryOf({ row, repeat, replaces }: Member, num_repeats: number): string {
  if (replaces !== undefined) return `sample ${row}, repeat ${repeat} in place of ${replaces}`;
  return num_repeats > 1 ? `sample ${row}, repeat ${repeat}` : `sample ${row}`;
}

/** Returns whether it ended as failed or timeout. Not stopped, cancelled or terminated, and not one that never started. */
function countFailure(
  tally: Tally,
  { error, ref }: { error: unknown; ref: RolloutInput },
): boolean {
  const cause = error instanceof ChildWorkflowFailure ? error.cause : null;
  if (!(cause instanceof ApplicationFailure) || cause.type === 'InvalidBatchRequest') return false;
  addFailure(tally, { ...failureOf(cause), example: rolloutId(ref) });
  return true;
}

function addFailure(tally: Tally, failure: Parameters<typeof oneFailure>[0]): void {
  tally.failures = sumOf([tally.failures, oneFailure(failure)]);
}

/** Returns whether the result is valid. */
function count(tally: Tally, result: RolloutResult): boolean {
  tally.turns += result.turn_count;
  tally.tokens += result.total_tokens;
  if (result.dropped === true) addFailure(tally, { ...OVERLONG, example: result.rollout_id });
  if (!isRow(result)) return false;
  tally.valid += 1;
  tally.reward_sum += result.total_reward;
  return true;
}

const isRow = ({ stop_reason, dropped }: RolloutResult): boolean =>
  VALID_STOP_REASONS.has(stop_reason) && dropped !== true;
