import type { ChildWorkflowHandle } from '@temporalio/workflow';
import {
  ParentClosePolicy,
  WorkflowIdReusePolicy,
  setHandler,
  startChild,
} from '@temporalio/workflow';
import type { BatchPlan, Tally } from '../activities/contract.js';
import type { LimitsChange } from '../model/limits.js';
import type { Part } from '../model/slices.js';
import { limitsSignal, satisfiedSignal, shareSignal, stopSignal, tallySignal } from './messages.js';
import type { RolloutRunner } from './run-rollouts.js';
import type { rolloutSlice } from './slice.js';
import { createStartInTurn } from './start-in-turn.js';

/** A slice while it runs: its share of `max_in_flight`, and its handle once it has started. */
interface OpenSlice {
  share: number;
  handle: ChildWorkflowHandle<typeof rolloutSlice> | null;
}

/** Runs a large batch as slices, all at once; when one ends, its share goes to the others. */
export function runSlices({
  plan,
  onResult,
  onSatisfied,
}: {
  plan: BatchPlan;
  onResult: (tally: Tally) => void;
  /** Every group of every slice is complete. */
  onSatisfied: () => void;
}): RolloutRunner {
  const { slices } = plan;
  let limits: LimitsChange | null = null;
  const shares = sharesOf(plan.max_in_flight, slices.length);
  const open = new Map<number, OpenSlice>(
    slices.map(({ first }, i) => [first, { share: shares[i] ?? 0, handle: null }]),
  );
  let stopped = false;
  const startInTurn = createStartInTurn(() => stopped);
  const counted = hearTallies(onResult);
  hearSatisfied({ slices: slices.length, onSatisfied });

  const play = async (part: Part): Promise<void> => {
    const slice = open.get(part.first);
    if (slice === undefined) return;
    try {
      const { share } = slice;
      const { told, handle } = await startInTurn(async () => {
        const now = limits;
        return { told: now, handle: await startSlice({ plan, part, share, limits: now }) };
      });
      slice.handle = handle;
      if (stopped) await handle.signal(stopSignal);
      else {
        if (slice.share !== share) await handle.signal(shareSignal, slice.share);
        if (limits !== null && limits !== told) await handle.signal(limitsSignal, limits);
      }
      counted(part.first, await handle.result());
    } finally {
      open.delete(part.first);
      if (!stopped) passOn(open, slice.share);
    }
  };

  return {
    finished: settleAll(slices.map(play)),
    stop: () => {
      stopped = true;
      for (const { handle } of open.values())
        void handle?.signal(stopSignal).catch(() => undefined);
    },
    setMaxInFlight: (maxInFlight) => {
      const shares = sharesOf(maxInFlight, open.size);
      for (const [i, slice] of [...open.values()].entries()) setShare(slice, shares[i] ?? 0);
    },
    setLimits: (change) => {
      limits = { ...limits, ...change };
      for (const { handle } of open.values())
        void handle?.signal(limitsSignal, change).catch(() => undefined);
    },
  };
}

/** The latest counts of each slice, by its first row; each news is told as the sum of all. */
function hearTallies(onResult: (tally: Tally) => void): (first: number, tally: Tally) => void {
  const tallies = new Map<number, Tally>();
  const counted = (first: number, tally: Tally): void => {
    tallies.set(first, tally);
    onResult(total([...tallies.values()]));
  };
  setHandler(tallySignal, ({ first, tally }) => {
    counted(first, tally);
  });
  return counted;
}

/** Each slice says once that its groups are complete. */
function hearSatisfied({ slices, onSatisfied }: { slices: number; onSatisfied: () => void }): void {
  const satisfied = new Set<number>();
  setHandler(satisfiedSignal, (first) => {
    satisfied.add(first);
    if (satisfied.size === slices) onSatisfied();
  });
}

/** A failed slice is data too: the batch closes its rows. */
async function settleAll(slices: Promise<void>[]): Promise<void> {
  await Promise.allSettled(slices);
}

function startSlice({
  plan,
  part,
  share,
  limits,
}: {
  plan: BatchPlan;
  part: Part;
  share: number;
  limits: LimitsChange | null;
}): Promise<ChildWorkflowHandle<typeof rolloutSlice>> {
  const { batch_id, num_repeats } = plan;
  return startChild<typeof rolloutSlice>('rolloutSlice', {
    args: [
      {
        batch_id,
        ...part,
        num_repeats,
        max_in_flight: share,
        tallies: plan.tallies,
        k: plan.min_k?.k ?? null,
        ...(limits !== null && { limits }),
      },
    ],
    workflowId: `${batch_id}/rows-${part.first}-${part.last}`,
    workflowIdReusePolicy: WorkflowIdReusePolicy.ALLOW_DUPLICATE,
    parentClosePolicy: ParentClosePolicy.TERMINATE,
    staticSummary: `samples ${part.first} to ${part.last}`,
  });
}

/** To the slice that has least: one signal for each slice that ends, however many there are. */
function passOn(open: Map<number, OpenSlice>, share: number): void {
  const [first, ...others] = open.values();
  if (first === undefined) return;
  const least = others.reduce((a, b) => (b.share < a.share ? b : a), first);
  setShare(least, least.share + share);
}

function setShare(slice: OpenSlice, share: number): void {
  if (share === slice.share) return;
  // A slice that is still being started is told once it has.
  slice.share = share;
  void slice.handle?.signal(shareSignal, share).catch(() => undefined);
}

/** As equal as whole rollouts allow; with fewer rollouts than slices, the last slices wait for a share. */
function sharesOf(maxInFlight: number, slices: number): number[] {
  const base = Math.floor(maxInFlight / slices);
  const rest = maxInFlight % slices;
  return Array.from({ length: slices }, (_, i) => base + (i < rest ? 1 : 0));
}

function total(tallies: readonly Tally[]): Tally {
  return tallies.reduce((sum, tally) => ({
    done: sum.done + tally.done,
    running: sum.running + tally.running,
    valid: sum.valid + tally.valid,
    turns: sum.turns + tally.turns,
    tokens: sum.tokens + tally.tokens,
    reward_sum: sum.reward_sum + tally.reward_sum,
  }));
}
