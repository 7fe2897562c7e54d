import type { ChildWorkflowHandle } from '@temporalio/workflow';
import type { BatchPlan, Tally } from '../../activities/contract.js';
import type { LimitsChange } from '../../model/workflow-safe/limits.js';
import {
  EVENTS_OF_NEWS,
  eventsOfLimits,
  eventsOfSlice,
  historyProblem,
  roomProblem,
} from '../steering/event-budget.js';
import { inRounds, limitsSignal, shareSignal } from '../steering/messages.js';
import { MOST_CHILDREN } from './refill.js';
import type { Steered } from './run-rollouts.js';
import type { rolloutSlice } from '../slice.js';

/** A slice's share of `max_in_flight`, and under `refill` of `max_replacements`; else null. */
export interface Share {
  in_flight: number;
  replacements: number | null;
}

/** A running slice, with its handle once it has started. */
export interface OpenSlice {
  share: Share;
  /** Without replacements. */
  rollouts: number;
  children: number;
  reported: Tally | null;
  /** Events of its own history, at most. */
  events: number;
  handle: ChildWorkflowHandle<typeof rolloutSlice> | null;
  /** Sends its share. A slice that is still being started receives it afterwards. */
  tell: (share: Share) => void;
}

export type OpenSlices = Map<number, OpenSlice>;

/** By their first rows; none is started yet. */
export function openSlices({ slices, num_repeats, max_in_flight, refill }: BatchPlan): OpenSlices {
  const rolloutsOf = ({ first, last }: BatchPlan['slices'][number]): number =>
    (last - first + 1) * num_repeats;
  const inFlight = sharesOf(max_in_flight, slices.map(rolloutsOf));
  // Any slice can use all of them.
  const anyOf = slices.map(() => Infinity);
  const replacements = refill && sharesOf(refill.max_replacements, anyOf);
  return new Map(
    slices.map((slice, i) => {
      const share = { in_flight: inFlight[i] ?? 0, replacements: replacements?.[i] ?? null };
      const rollouts = rolloutsOf(slice);
      const children = refill === null ? rollouts : MOST_CHILDREN;
      const open: OpenSlice = {
        share,
        rollouts,
        children,
        reported: null,
        events: eventsOfSlice(children),
        handle: null,
        // One after the other: the server may hand two signals over in another order than they were sent.
        tell: inRounds((now) => [open.handle?.signal(shareSignal, ...valuesOf(now))]),
      };
      return [slice.first, open];
    }),
  );
}

/** Gives a share to one slice: one signal for each slice that ends, however many there are. */
export function passOn(
  open: OpenSlices,
  { in_flight, replacements }: { in_flight: number; replacements: number },
): void {
  const slices = [...open.values()];
  const startable = slices.filter((slice) => rolloutsToStart(slice) > 0);
  const to = leastOf(startable) ?? leastOf(slices);
  if (to === null) return;
  const { share } = to;
  setShare(to, {
    in_flight: share.in_flight + in_flight,
    replacements: share.replacements === null ? null : share.replacements + replacements,
  });
}

/** As far as the batch knows. */
const rolloutsToStart = ({ rollouts, reported }: OpenSlice): number =>
  rollouts +
  (reported?.replacements ?? 0) -
  (reported === null ? 0 : reported.done + reported.running);

function leastOf([first, ...others]: OpenSlice[]): OpenSlice | null {
  if (first === undefined) return null;
  return others.reduce((a, b) => (b.share.in_flight < a.share.in_flight ? b : a), first);
}

export function setShare(slice: OpenSlice, share: Share): void {
  const { in_flight, replacements } = slice.share;
  if (share.in_flight === in_flight && share.replacements === replacements) return;
  slice.share = share;
  slice.events += EVENTS_OF_NEWS;
  slice.tell(share);
}

/** Also counts for a slice that is still being started and receives it later. */
export function sendLimits(slice: OpenSlice, change: LimitsChange): Promise<void> | undefined {
  slice.events += eventsOfLimits(slice.children);
  return slice.handle?.signal(limitsSignal, change);
}

export const limitsTo = (open: OpenSlices) => (change: LimitsChange) =>
  [...open.values()].map((slice) => sendLimits(slice, change));

const valuesOf = ({ in_flight, replacements }: Share): [number, number?] =>
  replacements === null ? [in_flight] : [in_flight, replacements];

/**
 * Shares of a whole for slices that can use at most so much each: as equal as whole numbers allow, and what one slice
 * cannot use goes to the others. If the whole is less than the slices, the last ones get none yet.
 */
export function sharesOf(whole: number, rollouts: readonly number[]): number[] {
  const shares = rollouts.map(() => 0);
  let left = whole;
  for (;;) {
    const open = rollouts.flatMap((own, i) => (own > (shares[i] ?? 0) ? [i] : []));
    if (left === 0 || open.length === 0) return shares;
    // Only the last round makes them unequal.
    const each = Math.max(1, Math.floor(left / open.length));
    for (const i of open.slice(0, left)) {
      const now = shares[i] ?? 0;
      shares[i] = Math.min(rollouts[i] ?? 0, now + each);
      left -= (shares[i] ?? 0) - now;
    }
  }
}

/** Why an update is rejected: the batch's history, or that of a slice, has no room for it. null: it is accepted. */
export function slicesProblem(
  open: OpenSlices,
  {
    limits,
    batch,
  }: Parameters<Steered['roomProblem']>[0] & { batch: Parameters<typeof roomProblem>[0] },
): string | null {
  const problem = roomProblem(batch, open.size);
  if (problem !== null || limits === undefined) return problem;
  for (const [first, { events, children }] of open) {
    const where = `the slice from row ${first} on`;
    const full = historyProblem(where, { has: events, costs: eventsOfLimits(children) });
    if (full !== null) return full;
  }
  return null;
}
