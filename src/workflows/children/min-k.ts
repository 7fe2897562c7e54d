import { CancellationScope, sleep, workflowInfo } from '@temporalio/workflow';
import type { BatchPlan } from '../../activities/contract.js';

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
