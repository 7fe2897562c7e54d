import type { RolloutRef } from '../model/batch-request.js';
import { Fault } from '../model/faults.js';
import type { Trajectory } from '../model/journal/trajectory.js';
import { toMs } from '../model/workflow-safe/durations.js';
import type { LimitsChange, TurnLimits } from '../model/workflow-safe/limits.js';
import { turnLimitsOf } from '../model/workflow-safe/limits.js';
import { withController } from '../platform/waits/abort.js';
import type { Share } from '../platform/waits/allowance.js';
import { withShare } from '../platform/waits/allowance.js';
import { LONGEST_TIMER_MS } from '../platform/waits/clock.js';
import type { Journal } from '../trajectories/trajectory-store.js';
import type { Attempt } from './attempt.js';
import type { Dependencies } from './dependencies.js';
import type { Idles } from './giving-way.js';
import { createIdling } from './giving-way.js';

/**
 * The right of an attempt to one rollout. It is lost at once if the activity ends, its time is over, others need its place,
 * or the journal is another's.
 */
export interface Lease extends Attempt {
  ref: RolloutRef;
  /** Aborts with the end of the lease. */
  signal: AbortSignal;
  /** Its share of the bytes that all folds share. */
  memory: Share;
  /** Others may get its slot and its memory while it waits so. */
  idles: Idles;
  /** Until what it returns is called, changed limits become lines of this journal, and who loses it loses the lease. */
  follows: (journal: Journal) => () => void;
}

export interface Term extends Pick<Dependencies, 'folds' | 'limits'> {
  attempt: Attempt;
  ref: RolloutRef;
  /** For an activity that ends itself, because its workflow has no timer yet. */
  deadline?: { rollout_timeout: string; spent_ms: number };
}

/** Runs with a lease. If the lease ends first, its reason is thrown, not the run's error. */
export const withLease = <T>(
  { attempt, ref, deadline, folds, limits }: Term,
  run: (lease: Lease) => Promise<T>,
): Promise<T> =>
  withShare(folds, (memory) =>
    withController(attempt.signal, async (controller) => {
      const { signal } = controller;
      const reasons: unknown[] = [];
      const end = (error: unknown): void => {
        if (signal.aborted) return;
        reasons.push(error);
        // Not the fault itself: code that it cuts must not take it for a fault of a service.
        controller.abort(error instanceof Fault ? new Error(error.message) : error);
      };
      const isCrowded = (): boolean => attempt.isCrowded() || folds.isAwaited();
      const { idles, leave } = createIdling({ isCrowded, hasGivenWay: attempt.hasGivenWay, end });
      const timer = deadline && createDeadline(deadline, { attempt, end });
      let journal: Journal | null = null;
      const unfollow = limits.follow(ref, {
        changed: (to) => {
          timer?.change(to);
          if (journal !== null) claimLimits(journal, to);
        },
        looks: () => void journal?.stillOurs().catch(end),
      });
      const follows: Lease['follows'] = (own) => {
        journal = own;
        return () => (journal = null);
      };
      try {
        signal.throwIfAborted();
        return await run({ ...attempt, ref, signal, memory, isCrowded, idles, follows });
      } catch (error) {
        throw reasons[0] ?? error;
      } finally {
        unfollow();
        leave();
        timer?.leave();
      }
    }),
  );

/**
 * A change becomes a claim of the journal's owner, as if the next attempt brought it: the next turn has it, and so has
 * the room of the answer in progress.
 */
function claimLimits(journal: Journal, to: LimitsChange): void {
  const limits = newTurnLimits(journal.trajectory, to);
  if (limits === null) return;
  const claim = { kind: 'claim', activity: 'setLimits', attempt: 1, reopen: false } as const;
  // A line that cannot be written is tried again in a second, unless the attempt ends of the same.
  void journal.append({ ...claim, limits }).catch(() => undefined);
}

/** The limits that are not in force yet; null: all are. */
function newTurnLimits(
  { settings_in_force: settings, limits, end }: Trajectory,
  change: LimitsChange,
): TurnLimits | null {
  if (end !== null) return null;
  const now: TurnLimits =
    settings === null
      ? { ...limits }
      : { ...settings, max_new_tokens: settings.generation.max_new_tokens };
  const differing = Object.entries(turnLimitsOf(change) ?? {}).filter(
    ([name, value]) => now[name as keyof TurnLimits] !== value,
  );
  return differing.length === 0 ? null : Object.fromEntries(differing);
}

/**
 * Ends it at `rollout_timeout`, also at one that is changed meanwhile. The time in which no replica serves is known only
 * when it is over, so the deadline is looked at again.
 */
function createDeadline(
  { rollout_timeout, spent_ms }: NonNullable<Term['deadline']>,
  { attempt, end }: { attempt: Pick<Attempt, 'elapsed_ms'>; end: (error: Fault) => void },
): { change: (to: LimitsChange) => void; leave: () => void } {
  let timeout = rollout_timeout;
  let timer: NodeJS.Timeout | undefined;
  const look = (): void => {
    const left_ms = toMs(timeout) - spent_ms - attempt.elapsed_ms();
    if (left_ms > 0) timer = setTimeout(look, Math.min(Math.ceil(left_ms), LONGEST_TIMER_MS));
    else end(new Fault({ type: 'TimedOut', message: `rollout_timeout ${timeout} passed` }));
  };
  const leave = (): void => {
    clearTimeout(timer);
  };
  look();
  return {
    change: ({ rollout_timeout: to = timeout }) => {
      if (to === timeout) return;
      timeout = to;
      leave();
      look();
    },
    leave,
  };
}
