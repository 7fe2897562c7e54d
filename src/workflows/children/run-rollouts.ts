import {
  ApplicationFailure,
  CancellationScope,
  ChildWorkflowFailure,
  condition,
  isCancellation,
  workflowInfo,
} from '@temporalio/workflow';
import type { RolloutResult, Tally } from '../../activities/contract.js';
import type { RolloutInput } from '../../model/batch-request.js';
import { rolloutId } from '../../model/workflow-safe/rollout-id.js';
import { VALID_STOP_REASONS } from '../../model/workflow-safe/stop-reasons.js';
import { OVERLONG, oneFailure, sumOf } from '../../model/workflow-safe/failures.js';
import type { LimitsChange } from '../../model/workflow-safe/limits.js';
import type { RowRange } from '../../model/workflow-safe/slices.js';
import { failureOf } from '../ending.js';
import { roomProblem } from '../steering/event-budget.js';
import { inRounds, unawaited } from '../steering/messages.js';
import type { RunningMember, Starts } from './members.js';
import { playMember, startMember } from './members.js';
import type { Member } from './refill.js';
import { queueMembers } from './refill.js';
import { createStartInTurn } from './start-in-turn.js';

export interface Run extends Starts {
  batch_id: string;
  rows: RowRange;
  /** How many may run at once, initially. */
  max_in_flight: number;
  onChange: (tally: Tally) => void;
  /** Called once for each row whose group has ended; absent: nobody asks. */
  onEnded?: (row: number) => void;
  /** Called once for each rollout that becomes a row for the trainer. */
  onValid?: (result: RolloutResult) => void;
  /** A group with this many valid rollouts stops its other members; null: never. */
  k: number | null;
  /** How many failed rollouts are replaced by new repeats, initially; null: none, now or later. */
  max_replacements: number | null;
  /** This workflow plays them itself; absent: each is a child workflow. */
  plays_rollouts?: boolean | undefined;
}

export interface Steered {
  setMaxInFlight: (maxInFlight: number) => void;
  /** Applies to running rollouts and to those that start later. */
  setLimits: (change: LimitsChange) => void;
  /** Why an update cannot be accepted, since each costs events; null: it can. */
  roomProblem: (update: { limits?: LimitsChange; max_in_flight?: number }) => string | null;
}

export interface RolloutRunner extends Steered {
  /**
   * Starts rollouts in input order, replacements first, and none of a group that has enough. Resolves when no rollout
   * runs any more.
   */
  finished: Promise<void>;
  /** Starts no further rollout and stops those that run. */
  stop: () => void;
  /** Row and repeat of each that runs; null: slices run them. */
  running: () => [row: number, repeat: number][] | null;
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

/** Runs the rollouts of some rows. A failed one is data and never fails its siblings. */
export function runRollouts({ onChange, onEnded, onValid, ...run }: Run): RowsRunner {
  /** Members that run, or (null) are being started. */
  const playing = new Map<Member, RunningMember | null>();
  const tally: Tally = { ...NO_TALLY };
  let { max_in_flight } = run;
  let limits: LimitsChange | null = null;
  let stopped = false;
  const startInTurn = createStartInTurn();
  const line = queueMembers({ ...run, onEnded });
  const announce = inRounds((change: LimitsChange) =>
    [...playing.values()].map((rollout) => rollout?.limit(change)),
  );
  /** `row`: only its members; absent: all. */
  const stopPlaying = (row?: number): void => {
    for (const [member, rollout] of playing)
      if (row === undefined || row === member.row) rollout?.stop();
  };

  const play = async (member: Member): Promise<void> => {
    const ref = { batch_id: run.batch_id, ...member };
    const isOver = (): boolean => stopped || line.hasEnough(ref.row);
    playing.set(member, null);
    tally.running += 1;
    if (member.replaces !== undefined) tally.replacements = (tally.replacements ?? 0) + 1;
    onChange({ ...tally });
    try {
      const { given, rollout } =
        run.plays_rollouts === true
          ? { given: limits, rollout: playMember(ref, { ...run, limits }) }
          : await startInTurn(() => startMember(ref, { ...run, limits }), {
              workflowId: rolloutId(ref),
              isOver,
            });
      if (isOver()) rollout.stop();
      else if (limits !== null && limits !== given) unawaited(rollout.limit(limits));
      playing.set(member, rollout);
      const result = await rollout.result();
      playing.delete(member);
      const isValid = count(tally, result);
      if (isValid) onValid?.(result);
      if (isValid && line.valid(ref.row)) stopPlaying(ref.row);
    } catch (error) {
      // Its journal says what ended it. A child that could not even start is closed without a journal.
      if (countFailure(tally, { error, ref, run })) line.failed(member);
    } finally {
      playing.delete(member);
      tally.running -= 1;
      tally.done += 1;
      line.ended(member.row);
      onChange({ ...tally });
    }
  };

  // A running rollout may still fail and need a replacement.
  const next = async (): Promise<Member | null> => {
    await condition(
      () => stopped || (line.isEmpty() ? tally.running === 0 : tally.running < max_in_flight),
    );
    return stopped ? null : line.next();
  };

  return {
    finished: playAll(play, { next, isIdle: () => tally.running === 0 }),
    stop: () => {
      stopped = true;
      stopPlaying();
    },
    setMaxInFlight: (now) => {
      max_in_flight = now;
    },
    setMaxReplacements: line.allow,
    setLimits: (change) => {
      limits = { ...limits, ...change };
      announce(change);
    },
    running: () => [...playing.keys()].map(({ row, repeat }) => [row, repeat]),
    // Running rollouts receive limits; `max_in_flight` does not concern them.
    roomProblem: (update) =>
      roomProblem(workflowInfo(), update.limits === undefined ? 0 : tally.running),
  };
}

/**
 * Starts one after the other, when each may start. A cancellation ends the starting, but running rollouts are still
 * waited for.
 */
async function playAll(
  play: (member: Member) => Promise<void>,
  { next, isIdle }: { next: () => Promise<Member | null>; isIdle: () => boolean },
): Promise<void> {
  try {
    for (let member = await next(); member !== null; member = await next()) void play(member);
  } catch (error) {
    if (!isCancellation(error)) throw error;
  } finally {
    await CancellationScope.nonCancellable(() => condition(isIdle));
  }
}

/** Returns whether it ended as failed or timeout. Not stopped, cancelled or terminated, and not one that never started. */
function countFailure(
  tally: Tally,
  { error, ref, run }: { error: unknown; ref: RolloutInput; run: Pick<Run, 'plays_rollouts'> },
): boolean {
  const own = run.plays_rollouts === true ? error : null;
  const cause = error instanceof ChildWorkflowFailure ? error.cause : own;
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
  if (!VALID_STOP_REASONS.has(result.stop_reason) || result.dropped === true) return false;
  tally.valid += 1;
  tally.reward_sum += result.total_reward;
  return true;
}
