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
import {
  limitsSignal,
  satisfiedSignal,
  shareSignal,
  stopSignal,
  tallySignal,
  tell,
} from './messages.js';
import type { RolloutRunner } from './run-rollouts.js';
import type { rolloutSlice } from './slice.js';
import { isTallyOf } from './signal-checks.js';
import { createStartInTurn } from './start-in-turn.js';

/** What a slice has of its batch's `max_in_flight`, and under `refill` of its `max_replacements`; else null. */
interface Share {
  in_flight: number;
  replacements: number | null;
}

/** A slice while it runs, and its handle once it has started. */
interface OpenSlice {
  share: Share;
  handle: ChildWorkflowHandle<typeof rolloutSlice> | null;
}

/**
 * Runs a large batch as slices, all at once; when one ends, its share goes to another. So a rollout that fails late may
 * be replaced where one that failed early was not: its slice had used up its share and ended before more came.
 */
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
  const open = openSlices(plan);
  let stopped = false;
  const startInTurn = createStartInTurn(() => stopped);
  const counted = hearTallies({ slices, onResult });
  hearSatisfied({ slices, onSatisfied });

  const play = async (part: Part): Promise<void> => {
    const slice = open.get(part.first);
    if (slice === undefined) return;
    // Of a slice that fails it is not known how many it replaced.
    let unused = 0;
    try {
      const { share } = slice;
      const { told, handle } = await startInTurn(async () => {
        const now = limits;
        return { told: now, handle: await startSlice({ plan, part, share, limits: now }) };
      });
      slice.handle = handle;
      if (stopped) tell(handle.signal(stopSignal));
      else {
        if (slice.share !== share) tell(handle.signal(shareSignal, ...valuesOf(slice.share)));
        if (limits !== null && limits !== told) tell(handle.signal(limitsSignal, limits));
      }
      const tally = await handle.result();
      unused = (slice.share.replacements ?? 0) - (tally.replacements ?? 0);
      counted(part.first, tally);
    } finally {
      open.delete(part.first);
      if (!stopped) passOn(open, { in_flight: slice.share.in_flight, replacements: unused });
    }
  };

  return {
    finished: settleAll(slices.map(play)),
    stop: () => {
      stopped = true;
      for (const { handle } of open.values()) tell(handle?.signal(stopSignal));
    },
    setMaxInFlight: (maxInFlight) => {
      const shares = sharesOf(maxInFlight, open.size);
      for (const [i, slice] of [...open.values()].entries())
        setShare(slice, { ...slice.share, in_flight: shares[i] ?? 0 });
    },
    setLimits: (change) => {
      limits = { ...limits, ...change };
      for (const { handle } of open.values()) tell(handle?.signal(limitsSignal, change));
    },
  };
}

/** By their first rows, none started. */
function openSlices({ slices, max_in_flight, refill }: BatchPlan): Map<number, OpenSlice> {
  const inFlight = sharesOf(max_in_flight, slices.length);
  const replacements = refill && sharesOf(refill.max_replacements, slices.length);
  return new Map(
    slices.map(({ first }, i) => {
      const share = { in_flight: inFlight[i] ?? 0, replacements: replacements?.[i] ?? null };
      return [first, { share, handle: null }];
    }),
  );
}

/** The latest counts of each slice, by its first row; each news is told as the sum of all. */
function hearTallies({
  slices,
  onResult,
}: {
  slices: Part[];
  onResult: (tally: Tally) => void;
}): (first: number, tally: Tally) => void {
  const tallies = new Map<number, Tally>();
  const counted = (first: number, tally: Tally): void => {
    tallies.set(first, tally);
    onResult(total([...tallies.values()]));
  };
  setHandler(tallySignal, (news) => {
    if (isTallyOf(news) && isSlice(slices, news.first)) counted(news.first, news.tally);
  });
  return counted;
}

/** Each slice says once that its groups are complete. */
function hearSatisfied({ slices, onSatisfied }: { slices: Part[]; onSatisfied: () => void }): void {
  const satisfied = new Set<number>();
  setHandler(satisfiedSignal, (first) => {
    if (!isSlice(slices, first)) return;
    satisfied.add(first);
    if (satisfied.size === slices.length) onSatisfied();
  });
}

const isSlice = (slices: Part[], row: number): boolean => slices.some(({ first }) => first === row);

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
  share: Share;
  limits: LimitsChange | null;
}): Promise<ChildWorkflowHandle<typeof rolloutSlice>> {
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
      },
    ],
    workflowId: `${batch_id}/rows-${part.first}-${part.last}`,
    workflowIdReusePolicy: WorkflowIdReusePolicy.ALLOW_DUPLICATE,
    parentClosePolicy: ParentClosePolicy.TERMINATE,
    staticSummary: `samples ${part.first} to ${part.last}`,
  });
}

/** To the slice that has least: one signal for each slice that ends, however many there are. */
function passOn(
  open: Map<number, OpenSlice>,
  { in_flight, replacements }: { in_flight: number; replacements: number },
): void {
  const [first, ...others] = open.values();
  if (first === undefined) return;
  const least = others.reduce((a, b) => (b.share.in_flight < a.share.in_flight ? b : a), first);
  const { share } = least;
  setShare(least, {
    in_flight: share.in_flight + in_flight,
    replacements: share.replacements === null ? null : share.replacements + replacements,
  });
}

function setShare(slice: OpenSlice, share: Share): void {
  const { in_flight, replacements } = slice.share;
  if (share.in_flight === in_flight && share.replacements === replacements) return;
  // A slice that is still being started is told once it has.
  slice.share = share;
  tell(slice.handle?.signal(shareSignal, ...valuesOf(share)));
}

const valuesOf = ({ in_flight, replacements }: Share): [number, number?] =>
  replacements === null ? [in_flight] : [in_flight, replacements];

/** As equal as whole rollouts allow; with fewer rollouts than slices, the last slices wait for a share. */
function sharesOf(whole: number, slices: number): number[] {
  const base = Math.floor(whole / slices);
  const rest = whole % slices;
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
    replacements: (sum.replacements ?? 0) + (tally.replacements ?? 0),
  }));
}
