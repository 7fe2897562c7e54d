/**
 * A slice is whole groups, of this many rollouts or a single larger group (at most 300 repeats): up to 14 events a
 * rollout, with stop or cancel, keep its history under 5,000. A parent's workflow tasks come one after the other, so
 * smaller slices start and gather faster; still smaller ones gain nothing (bench/README.md). A batch of one slice runs
 * its rollouts itself.
 */
export const ROLLOUTS_PER_SLICE = 128;

/** Below the 5,000 events of a history, with some to spare for planning and closing. */
const EVENTS_OF_BATCH = 4800;
/** What a slice costs its batch at most: start and end 9, a share that is passed on 5, stop or cancel 5. */
const EVENTS_OF_SLICE = 19;
/** A signal that has a workflow task to itself. */
const EVENTS_OF_TALLY = 4;
const MOST_TALLIES = 10;

/**
 * How often each slice tells its batch its counts: the more slices, the less often, and not at all before its end from
 * about 210 slices on. From 253 slices on (75,000 rollouts in small groups, 37,000 at worst) the batch's own history
 * may pass 5,000 events.
 */
export function talliesOf(slices: number): number {
  const left = EVENTS_OF_BATCH / Math.max(1, slices) - EVENTS_OF_SLICE;
  return Math.max(0, Math.min(MOST_TALLIES, Math.floor(left / EVENTS_OF_TALLY)));
}

/** Rows `first` to `last`, both included. */
export interface Part {
  first: number;
  last: number;
}

/** What slices run and close, and what the batch joins: the same everywhere, since only the size decides. */
export function slicesOf({
  samples,
  num_repeats,
}: {
  samples: number;
  num_repeats: number;
}): Part[] {
  const rows = Math.max(1, Math.floor(ROLLOUTS_PER_SLICE / num_repeats));
  return Array.from({ length: Math.ceil(samples / rows) }, (_, i) => ({
    first: i * rows,
    last: Math.min(samples, (i + 1) * rows) - 1,
  }));
}
