import { CancellationScope, sleep, workflowInfo } from '@temporalio/workflow';
import type { BatchPlan } from '../../activities/contract.js';

/**
 * Ends a batch before all its rollouts have ended: once every group has enough valid ones, or at the policy's deadline,
 * which counts from the batch's start.
 */
export interface EarlyEnd {
  /** Every group has enough. */
  satisfied: () => void;
  /** What is to be done then. */
  onEnd(stop: () => void): void;
  ended(): boolean;
  /** All rollouts have ended: nothing is waited for any more. */
  over(): void;
}

export function endEarly({ min_k }: Pick<BatchPlan, 'min_k'>): EarlyEnd {
  let ended = false;
  let stop = (): void => undefined;
  const end = (): void => {
    ended = true;
    stop();
  };
  const waiting = new CancellationScope();
  if (min_k?.deadline_ms != null) {
    const deadline = workflowInfo().startTime.getTime() + min_k.deadline_ms;
    const wait = (): Promise<void> =>
      sleep(Math.max(1, deadline - Date.now()), { summary: 'completion.deadline' });
    waiting.run(wait).then(end, () => undefined);
  }
  return {
    satisfied: end,
    onEnd: (callback) => {
      stop = callback;
      if (ended) stop();
    },
    ended: () => ended,
    over: () => {
      waiting.cancel();
    },
  };
}

/** Counts valid rollouts by group, and calls back once when every group of these rows has `k`. */
export function countGroups({
  rows,
  k,
  onSatisfied,
}: {
  rows: { first: number; last: number };
  k: number | null;
  onSatisfied: () => void;
}): (row: number) => void {
  const valid = new Map<number, number>();
  let complete = 0;
  return (row) => {
    const count = (valid.get(row) ?? 0) + 1;
    valid.set(row, count);
    if (count !== k) return;
    complete += 1;
    if (complete === rows.last - rows.first + 1) onSatisfied();
  };
}
