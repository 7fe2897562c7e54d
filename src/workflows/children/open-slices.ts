import type { ChildWorkflowHandle } from '@temporalio/workflow';
import { patched } from '@temporalio/workflow';
import type { BatchPlan, Tally } from '../../activities/contract.js';
import type { LimitsChange } from '../../model/workflow-safe/limits.js';
import type { EventBudget, SliceEvents } from '../steering/event-budget.js';
import {
  EVENTS_OF_NEWS,
  EVENTS_OF_SIGNAL,
  EVENTS_OF_UPDATE,
  eventsOfLimits,
  eventsToCome,
  roomProblem,
  sliceRoom,
} from '../steering/event-budget.js';
import { limitsSignal, shareSignal } from '../steering/messages.js';
import { MOST_CHILDREN } from './refill.js';
import type { Steering } from './run-rollouts.js';
import type { rolloutSlice } from '../slice.js';

/** What a slice has of its batch's `max_in_flight`, and under `refill` of its `max_replacements`; else null. */
export interface Share {
  in_flight: number;
  replacements: number | null;
}

/** A slice while it runs, and its handle once it has started. */
export interface OpenSlice {
  share: Share;
  /** Its last report. */
  heard: Tally | null;
  /** Reports that it has yet to send. */
  tallies: number;
  /** Of its own history. */
  events: SliceEvents;
  handle: ChildWorkflowHandle<typeof rolloutSlice> | null;
  tell: EventBudget['tell'];
}

export type OpenSlices = Map<number, OpenSlice>;

/** By their first rows, none started. */
export function openSlices(
  { slices, num_repeats, max_in_flight, refill, tallies }: BatchPlan,
  { tell }: EventBudget,
): OpenSlices {
  const inFlight = sharesOf(max_in_flight, slices.length);
  const replacements = refill && sharesOf(refill.max_replacements, slices.length);
  return new Map(
    slices.map(({ first, last }, i) => {
      const share = { in_flight: inFlight[i] ?? 0, replacements: replacements?.[i] ?? null };
      const rollouts = (last - first + 1) * num_repeats;
      const events = { rollouts, ...mostOf(share, rollouts), spent: 0 };
      return [first, { share, heard: null, tallies, events, handle: null, tell }];
    }),
  );
}

/** A slice starts no more children than these, whatever its share. */
function mostOf(share: Share, rollouts: number): Pick<SliceEvents, 'in_flight' | 'replacements'> {
  const replacements = Math.min(share.replacements ?? 0, MOST_CHILDREN - rollouts);
  return { in_flight: share.in_flight, replacements: Math.max(0, replacements) };
}

/** To one slice: one signal for each slice that ends, however many there are. */
export function passOn(
  open: OpenSlices,
  { in_flight, replacements }: { in_flight: number; replacements: number },
): void {
  const slices = [...open.values()];
  const wanting = slices.filter((slice) => rolloutsToStart(slice) > 0);
  const best = leastOf(wanting) ?? leastOf(slices);
  const least = leastOf(slices);
  // A recorded history in which it went to the least, whatever that had to start, still replays.
  const to = best === least || patched('pass-on-where-wanted') ? best : least;
  if (to === null) return;
  const { share } = to;
  setShare(to, {
    in_flight: share.in_flight + in_flight,
    replacements: share.replacements === null ? null : share.replacements + replacements,
  });
}

/** As far as the batch has heard. */
const rolloutsToStart = ({ events, heard }: OpenSlice): number =>
  events.rollouts + (heard?.replacements ?? 0) - (heard === null ? 0 : heard.done + heard.running);

function leastOf([first, ...others]: OpenSlice[]): OpenSlice | null {
  if (first === undefined) return null;
  return others.reduce((a, b) => (b.share.in_flight < a.share.in_flight ? b : a), first);
}

export function setShare(slice: OpenSlice, share: Share): void {
  const { in_flight, replacements } = slice.share;
  if (share.in_flight === in_flight && share.replacements === replacements) return;
  // A slice that is still being started is told once it has.
  slice.share = share;
  const { events } = slice;
  const most = mostOf(share, events.rollouts);
  events.in_flight = Math.max(events.in_flight, most.in_flight);
  events.replacements = Math.max(events.replacements, most.replacements);
  events.spent += EVENTS_OF_NEWS;
  tellShare(slice);
}

export function tellShare({ handle, share, tell }: OpenSlice): void {
  tell(handle?.signal(shareSignal, ...valuesOf(share)));
}

/** Its history is charged also where it is still being started: then it is told later. */
export function tellLimits({ handle, events, tell }: OpenSlice, change: LimitsChange): void {
  events.spent += eventsOfLimits(events);
  tell(handle?.signal(limitsSignal, change));
}

const valuesOf = ({ in_flight, replacements }: Share): [number, number?] =>
  replacements === null ? [in_flight] : [in_flight, replacements];

/** As equal as whole rollouts allow; with fewer rollouts than slices, the last slices wait for a share. */
export function sharesOf(whole: number, slices: number): number[] {
  const base = Math.floor(whole / slices);
  const rest = whole % slices;
  return Array.from({ length: slices }, (_, i) => base + (i < rest ? 1 : 0));
}

/** What keeps an update from being taken: the batch's own history has no room for it, or that of a slice. */
export function slicesProblem(
  {
    open,
    has,
    plan,
  }: { open: OpenSlices; has: number; plan: Pick<BatchPlan, 'batch_id' | 'min_k'> },
  { limits, max_in_flight }: Steering,
): string | null {
  const slices = [...open.values()];
  const running = slices.filter(({ handle }) => handle !== null).length;
  const news = slices.reduce(
    (sum, { tallies }) => sum + tallies + (plan.min_k === null ? 0 : 1),
    0,
  );
  const toCome = eventsToCome({ starting: slices.length - running, running });
  const shares = max_in_flight === undefined ? null : sharesOf(max_in_flight, slices.length);
  const told = slices.filter(
    ({ share }, i) => limits !== undefined || (shares !== null && shares[i] !== share.in_flight),
  );
  const problem = roomProblem({
    where: plan.batch_id,
    has,
    toCome: toCome + news * EVENTS_OF_NEWS,
    costs: EVENTS_OF_UPDATE + told.length * EVENTS_OF_SIGNAL,
  });
  if (problem !== null || limits === undefined) return problem;
  for (const [first, { events }] of open) {
    const room = sliceRoom(`the slice from row ${first} on`, events);
    const full = roomProblem({ ...room, costs: eventsOfLimits(events) });
    if (full !== null) return full;
  }
  return null;
}
