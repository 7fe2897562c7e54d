import { CancellationScope, sleep, workflowInfo } from '@temporalio/workflow';
import type { BatchPlan } from '../../activities/contract.js';

/** Valid rollouts by group: under `min_k` a group that has enough needs its other members no more. */
export interface Groups {
  /** One more is valid. Returns whether the group has enough since now. */
  count: (row: number) => boolean;
  hasEnough: (row: number) => boolean;
}

/** `k`: how many are enough; null: no number is. */
export function countGroups(k: number | null): Groups {
  const valid = new Map<number, number>();
  const of = (row: number): number => valid.get(row) ?? 0;
  return {
    count: (row) => {
      valid.set(row, of(row) + 1);
      return of(row) === k;
    },
    hasEnough: (row) => k !== null && of(row) >= k,
  };
}

/**
 * Members that a group's end or the deadline kept from being started have no journal that says so; after a cancellation
 * they count as cancelled.
 */
export const leavesStopped = (k: number | null): boolean =>
  k !== null && !CancellationScope.current().consideredCancelled;

/** The policy's deadline, which counts from the batch's start. */
export interface Deadline {
  /** What is to be done when it has passed. */
  onPassed(stop: () => void): void;
  /** All rollouts have ended: nothing is waited for any more. */
  over(): void;
}

export function awaitDeadline({ min_k }: Pick<BatchPlan, 'min_k'>): Deadline {
  let passed = false;
  let stop = (): void => undefined;
  const waiting = new CancellationScope();
  if (min_k?.deadline_ms != null) {
    const deadline = workflowInfo().startTime.getTime() + min_k.deadline_ms;
    const wait = (): Promise<void> =>
      sleep(Math.max(1, deadline - Date.now()), { summary: 'completion.deadline' });
    const pass = (): void => {
      passed = true;
      stop();
    };
    waiting.run(wait).then(pass, () => undefined);
  }
  return {
    onPassed: (callback) => {
      stop = callback;
      if (passed) stop();
    },
    over: () => {
      waiting.cancel();
    },
  };
}
