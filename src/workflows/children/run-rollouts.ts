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
import type { LimitsChange } from '../../model/workflow-safe/limits.js';
import type { RowRange } from '../../model/workflow-safe/slices.js';
import { roomProblem } from '../steering/event-budget.js';
import { LIMITS_MEMO, inRounds, limitsSignal, stopSignal, tell } from '../steering/messages.js';
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
  /** How many may run at once, to begin with. */
  max_in_flight: number;
  onChange: (tally: Tally) => void;
  /** Once for each row whose group has ended. */
  onEnded: (row: number) => void;
  /** Once for each rollout that is a row for the trainer. */
  onValid?: (result: RolloutResult) => void;
  /** A group with so many valid rollouts stops the rest of its own; null: it never does. */
  k: number | null;
  /** How many failed rollouts are replaced by new repeats, to begin with; null: none, whatever comes. */
  max_replacements: number | null;
}

export interface RolloutRunner {
  /** Starts rollouts in input order, replacements first, and of a group that has enough no more; resolves when none runs any more, whatever ended them. */
  finished: Promise<void>;
  /** No rollout starts any more, and those that run are told to stop. */
  stop: () => void;
  setMaxInFlight: (maxInFlight: number) => void;
  /** For rollouts that run and for those that start later. */
  setLimits: (change: LimitsChange) => void;
  /** What keeps an update from being taken, since each costs events; null: nothing. */
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

/** Runs the rollouts of some rows as child workflows. A failed child is data: it never fails its siblings. */
export function runRollouts({ onChange, onEnded, onValid, ...run }: Run): RowsRunner {
  const running = runningRollouts(onValid);
  const tally: Tally = { done: 0, running: 0, valid: 0, turns: 0, tokens: 0, reward_sum: 0 };
  let { max_in_flight } = run;
  let limits: LimitsChange | null = null;
  let stopped = false;
  const groups = countGroups(run.k);
  const startInTurn = createStartInTurn();
  const line = queueMembers({ ...run, isOver: groups.hasEnough });
  const whole = watchGroups(line, onEnded);
  const announce = inRounds(running.limit);

  const play = async (member: Member): Promise<void> => {
    const ref = { batch_id: run.batch_id, ...member };
    const isOver = (): boolean => stopped || groups.hasEnough(ref.row);
    tally.running += 1;
    if (member.replaces !== undefined) tally.replacements = (tally.replacements ?? 0) + 1;
    onChange({ ...tally });
    try {
      const { told, handle } = await startInTurn(async () => {
        const now = limits;
        const child = await startRollout({ ref, num_repeats: run.num_repeats, told: now });
        return { told: now, handle: child };
      }, isOver);
      if (isOver()) tell(handle.signal(stopSignal));
      else if (limits !== null && limits !== told) tell(handle.signal(limitsSignal, limits));
      const result = await running.resultOf(handle, ref.row);
      if (count(tally, result) && groups.count(ref.row)) running.stop(ref.row);
    } catch (error) {
      // What ended it is in its journal; a child that could not even start is closed without one.
      if (hasFailed(error)) line.failed(member);
    } finally {
      tally.running -= 1;
      tally.done += 1;
      whole.ended(ref.row);
      onChange({ ...tally });
    }
  };

  // A running rollout may fail and have to be replaced.
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
    // Running rollouts hear of limits; how many may run concerns none of them.
    roomProblem: (update) =>
      roomProblem(workflowInfo(), update.limits === undefined ? 0 : tally.running),
  };
}

interface Running {
  /** Until it has ended, it is one of those that run. */
  resultOf: (child: RolloutHandle, row: number) => Promise<RolloutResult>;
  /** Of one row; absent: all. */
  stop: (row?: number) => void;
  limit: (change: LimitsChange) => Promise<void>[];
}

function runningRollouts(onValid: Run['onValid']): Running {
  /** With the row of each. */
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
        if (row === undefined || row === own) tell(child.signal(stopSignal));
    },
    limit: (change) => [...rows.keys()].map((child) => child.signal(limitsSignal, change)),
  };
}

/** One after the other, as they may start. A cancellation ends the starting; those that run are waited for all the same. */
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

function startRollout({
  ref,
  num_repeats,
  told,
}: {
  ref: RolloutInput;
  num_repeats: number;
  told: LimitsChange | null;
}): Promise<RolloutHandle> {
  return startChild<typeof rollout>('rollout', {
    args: [ref],
    workflowId: rolloutId(ref),
    workflowIdReusePolicy: WorkflowIdReusePolicy.ALLOW_DUPLICATE,
    parentClosePolicy: ParentClosePolicy.TERMINATE,
    staticSummary: summaryOf(ref, num_repeats),
    ...(told !== null && { memo: { [LIMITS_MEMO]: told } }),
  });
}

function summaryOf({ row, repeat, replaces }: Member, num_repeats: number): string {
  if (replaces !== undefined) return `sample ${row}, repeat ${repeat} in place of ${replaces}`;
  return `sample ${row}${num_repeats > 1 ? `, repeat ${repeat} of ${num_repeats}` : ''}`;
}

/** It ended as failed or timeout; not as stopped or cancelled, it was not terminated, and it was started at all. */
const hasFailed = (error: unknown): boolean =>
  error instanceof ChildWorkflowFailure &&
  error.cause instanceof ApplicationFailure &&
  error.cause.type !== 'InvalidBatchRequest';

/** Returns whether it was valid. */
function count(tally: Tally, result: RolloutResult): boolean {
  tally.turns += result.turn_count;
  tally.tokens += result.total_tokens;
  if (!isRow(result)) return false;
  tally.valid += 1;
  tally.reward_sum += result.total_reward;
  return true;
}

const isRow = ({ stop_reason, dropped }: RolloutResult): boolean =>
  VALID_STOP_REASONS.has(stop_reason) && dropped !== true;
