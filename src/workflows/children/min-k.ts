import { CancellationScope, sleep, workflowInfo } from '@temporalio/workflow';
import type { BatchPlan } from '../../activities/contract.js';

/** Members that never began, by their group or the deadline, are stopped; after a cancellation, cancelled. */
export const leavesStopped = (k: number | null): boolean =>
  k !== null && !CancellationScope.current().consideredCancelled;

/** Counted from the batch's run: a delayed start and a reset take nothing of it. Returns what ends it. */
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
