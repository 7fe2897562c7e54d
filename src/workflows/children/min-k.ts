import { CancellationScope, sleep, workflowInfo } from '@temporalio/workflow';
import type { BatchPlan } from '../../activities/contract.js';

/** Counts valid rollouts by group: under `min_k` a group with enough of them does not need its other members. */
export interface Groups {
  /** Counts one more valid rollout. Returns whether the group has just reached enough. */
  count: (row: number) => boolean;
  hasEnough: (row: number) => boolean;
}

/** `k`: how many are enough; null: no limit. */
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
 * Members that were never started because their group had enough, or because of the deadline, have no journal. They
 * count as stopped; after a cancellation, as cancelled.
 */
export const leavesStopped = (k: number | null): boolean =>
  k !== null && !CancellationScope.current().consideredCancelled;

/**
 * The policy's deadline, counted from when the batch's run begins: a delayed start and a reset take nothing of it. Returns
 * a function that ends it, for when all rollouts have ended.
 */
export function stopAtDeadline({ min_k }: Pick<BatchPlan, 'min_k'>, stop: () => void): () => void {
  const waiting = new CancellationScope();
  if (min_k?.deadline_ms != null) {
    const deadline = workflowInfo().runStartTime.getTime() + min_k.deadline_ms;
    const wait = (): Promise<void> =>
      sleep(Math.max(1, deadline - Date.now()), { summary: 'completion.deadline' });
    waiting.run(wait).then(stop, () => undefined);
  }
  return () => {
    waiting.cancel();
  };
}
