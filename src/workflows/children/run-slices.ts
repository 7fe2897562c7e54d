import type { ChildWorkflowHandle } from '@temporalio/workflow';
import {
  ParentClosePolicy,
  WorkflowIdReusePolicy,
  setHandler,
  startChild,
  workflowInfo,
} from '@temporalio/workflow';
import type { BatchPlan, Tally } from '../../activities/contract.js';
import { sumOf } from '../../model/workflow-safe/failures.js';
import type { LimitsChange } from '../../model/workflow-safe/limits.js';
import type { RowRange } from '../../model/workflow-safe/slices.js';
import { rowsOf, sliceId } from '../../model/workflow-safe/slices.js';
import { inRounds, stopSignal, tallySignal, unawaited } from '../steering/messages.js';
import type { Share } from './open-slices.js';
import {
  openSlices,
  passOn,
  limitsTo,
  sendLimits,
  setShare,
  sharesOf,
  slicesProblem,
} from './open-slices.js';
import type { RolloutRunner } from './run-rollouts.js';
import type { rolloutSlice } from '../slice.js';
import { isTallyOf } from '../steering/input-checks.js';
import { createStartInTurn } from './start-in-turn.js';

interface RunSlices {
  plan: BatchPlan;
  onResult: (tally: Tally) => void;
  /** Rows whose groups have ended; a row may come twice. */
  onEnded: (rows: number[]) => void;
}

/**
 * Runs a large batch as slices, all at once. When one ends, its share goes to another. So a late failure may be
 * replaced although an early one was not, because its slice had already used up its share.
 */
export function runSlices({ plan, onResult, onEnded }: RunSlices): RolloutRunner {
  const { slices } = plan;
  let limits: LimitsChange | null = null;
  const open = openSlices(plan);
  const announce = inRounds(limitsTo(open));
  let stopped = false;
  const startInTurn = createStartInTurn();
  const tallies = createTallies();
  const counted = (first: number, tally: Tally): void => {
    onResult(tallies.add(first, tally));
  };
  setHandler(tallySignal, (news) => {
    const part = isTallyOf(news) ? slices.find(({ first }) => first === news.first) : undefined;
    if (part === undefined) return;
    const slice = open.get(news.first);
    if (slice !== undefined) slice.reported = news.tally;
    counted(news.first, news.tally);
    onEnded((news.ended ?? []).filter((row) => row >= part.first && row <= part.last));
  });

  const play = async (part: RowRange): Promise<void> => {
    const slice = open.get(part.first);
    if (slice === undefined) return;
    // A failed slice does not report how many rollouts it replaced.
    let unused = 0;
    try {
      const { share } = slice;
      const { given, handle } = await startInTurn(
        async () => {
          const now = limits;
          return { given: now, handle: await startSlice(plan, { part, share, limits: now }) };
        },
        { workflowId: sliceId(plan.batch_id, part), isOver: () => stopped },
      );
      slice.handle = handle;
      if (stopped) unawaited(handle.signal(stopSignal));
      else {
        if (slice.share !== share) slice.tell(slice.share);
        if (limits !== null && limits !== given) unawaited(sendLimits(slice, limits));
      }
      const tally = await handle.result();
      unused = (slice.share.replacements ?? 0) - (tally.replacements ?? 0);
      counted(part.first, tally);
      onEnded(rowsOf(part));
    } finally {
      open.delete(part.first);
      if (!stopped) passOn(open, { in_flight: slice.share.in_flight, replacements: unused });
    }
  };

  return {
    // A failed slice is data, too: the batch closes its rows.
    finished: Promise.allSettled(slices.map(play)).then(() => undefined),
    stop: () => {
      stopped = true;
      for (const { handle } of open.values()) unawaited(handle?.signal(stopSignal));
    },
    setMaxInFlight: (maxInFlight) => {
      const slices = [...open.values()];
      const shares = sharesOf(
        maxInFlight,
        slices.map(({ rollouts }) => rollouts),
      );
      for (const [i, slice] of slices.entries())
        setShare(slice, { ...slice.share, in_flight: shares[i] ?? 0 });
    },
    setLimits: (change) => {
      limits = { ...limits, ...change };
      announce(change);
    },
    running: () => null,
    roomProblem: (update) => slicesProblem(open, { ...update, batch: workflowInfo() }),
  };
}

/**
 * The sum over slices of the furthest report of each, by its first row. Temporal may hand two signals over in another
 * order than they were sent, and a reset slice begins anew.
 */
export function createTallies() {
  const tallies = new Map<number, Tally>();
  return {
    add: (first: number, tally: Tally): Tally => {
      if (tally.done >= (tallies.get(first)?.done ?? 0)) tallies.set(first, tally);
      return total([...tallies.values()]);
    },
  };
}

function startSlice(
  plan: BatchPlan,
  { part, share, limits }: { part: RowRange; share: Share; limits: LimitsChange | null },
): Promise<ChildWorkflowHandle<typeof rolloutSlice>> {
  const { batch_id, num_repeats } = plan;
  return startChild<typeof rolloutSlice>('rolloutSlice', {
    args: [
      {
        batch_id,
        ...part,
        num_repeats,
        max_in_flight: share.in_flight,
        tallies: plan.tallies,
        k: plan.min_k?.k ?? null,
        ...(share.replacements !== null && { max_replacements: share.replacements }),
        ...(limits !== null && { limits }),
        rollout_timeout: plan.limits.rollout_timeout,
        heartbeat_timeout_ms: plan.heartbeat_timeout_ms,
        plays_rollouts: plan.plays_rollouts,
      },
    ],
    workflowId: sliceId(batch_id, part),
    workflowIdReusePolicy: WorkflowIdReusePolicy.ALLOW_DUPLICATE,
    parentClosePolicy: ParentClosePolicy.TERMINATE,
    staticSummary: `samples ${part.first} to ${part.last}`,
    // Its rollouts, and their activities, inherit it.
    ...(plan.priority !== undefined && { priority: plan.priority }),
  });
}

function total(tallies: readonly Tally[]): Tally {
  return tallies.reduce((sum, tally) => ({
    done: sum.done + tally.done,
    running: sum.running + tally.running,
    valid: sum.valid + tally.valid,
    turns: sum.turns + tally.turns,
    tokens: sum.tokens + tally.tokens,
    reward_sum: sum.reward_sum + tally.reward_sum,
    replacements: (sum.replacements ?? 0) + (tally.replacements ?? 0),
    failures: sumOf([sum.failures, tally.failures]),
  }));
}
