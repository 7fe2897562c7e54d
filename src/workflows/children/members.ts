import { ParentClosePolicy, WorkflowIdReusePolicy, startChild } from '@temporalio/workflow';
import type { RolloutResult } from '../../activities/contract.js';
import type { RolloutInput } from '../../model/batch-request.js';
import type { LimitsChange } from '../../model/workflow-safe/limits.js';
import type { TaskPriority } from '../../model/workflow-safe/priority.js';
import { rolloutId } from '../../model/workflow-safe/rollout-id.js';
import { playRollout } from '../play-rollout.js';
import type { rollout } from '../rollout.js';
import {
  HEARTBEAT_MEMO,
  LIMITS_MEMO,
  TIMEOUT_MEMO,
  limitsSignal,
  stopSignal,
  unawaited,
} from '../steering/messages.js';
import { createLimits } from '../steering/rollout-limits.js';
import type { Member } from './refill.js';

/** A rollout that runs: a child workflow, or played by this one. */
export interface RunningMember {
  /** Fails with the rollout's own failure, which a child's wraps. */
  result: () => Promise<RolloutResult>;
  stop: () => void;
  /** undefined: it is there already. */
  limit: (change: LimitsChange) => Promise<void> | undefined;
}

export interface Starts {
  num_repeats: number;
  /** The limit of one that nobody has opened yet; absent: its opening has it. */
  rollout_timeout?: string | undefined;
  /** The heartbeat timeout of the activities that open them; absent: 10 s. */
  heartbeat_timeout_ms?: number | undefined;
  /** The priority of their tasks; absent: that of this workflow. */
  priority?: TaskPriority | undefined;
}

interface Starting extends Starts {
  limits: LimitsChange | null;
}

/** As a child workflow, which has these limits from its start. */
export async function startMember(
  ref: RolloutInput,
  { num_repeats, limits, rollout_timeout, heartbeat_timeout_ms, priority }: Starting,
): Promise<{ given: LimitsChange | null; rollout: RunningMember }> {
  const memo = {
    ...(limits !== null && { [LIMITS_MEMO]: limits }),
    ...(rollout_timeout !== undefined && { [TIMEOUT_MEMO]: rollout_timeout }),
    ...(heartbeat_timeout_ms !== undefined && { [HEARTBEAT_MEMO]: heartbeat_timeout_ms }),
  };
  const child = await startChild<typeof rollout>('rollout', {
    args: [ref],
    workflowId: rolloutId(ref),
    workflowIdReusePolicy: WorkflowIdReusePolicy.ALLOW_DUPLICATE,
    parentClosePolicy: ParentClosePolicy.TERMINATE,
    staticSummary: summaryOf(ref, num_repeats),
    ...(priority !== undefined && { priority }),
    ...(Object.keys(memo).length > 0 && { memo }),
  });
  const running: RunningMember = {
    result: () => child.result() as Promise<RolloutResult>,
    stop: () => {
      unawaited(child.signal(stopSignal));
    },
    limit: (change) => child.signal(limitsSignal, change),
  };
  return { given: limits, rollout: running };
}

/**
 * Plays it without a workflow of its own, which costs several times what its activity does. What it waits for, batch
 * and lists read from its journal.
 */
export function playMember(
  ref: RolloutInput,
  { num_repeats, limits, rollout_timeout, heartbeat_timeout_ms }: Starting,
): RunningMember {
  const own = createLimits({ limits: limits ?? {}, started_at: Date.now() }, rollout_timeout);
  let end = (): void => undefined;
  const result = playRollout(ref, {
    limits: own,
    onStop: (stop) => {
      end = stop;
    },
    in_slice: true,
    summary: summaryOf(ref, num_repeats),
    heartbeat_timeout_ms,
  });
  return {
    result: () => result as Promise<RolloutResult>,
    stop: () => {
      end();
    },
    limit: (change) => {
      own.change(change);
      return undefined;
    },
  };
}

/** Counted from 0, as in its id. */
function summaryOf({ row, repeat, replaces }: Member, num_repeats: number): string {
  if (replaces !== undefined) return `sample ${row}, repeat ${repeat} in place of ${replaces}`;
  return num_repeats > 1 ? `sample ${row}, repeat ${repeat}` : `sample ${row}`;
}
