/**
 * A slice is whole groups. A parent's workflow tasks come one after the other, so smaller slices start and gather
 * faster; still smaller ones than these gain nothing (bench/README.md). A batch of one slice runs its rollouts itself.
 */
export const ROLLOUTS_PER_SLICE = 128;

/** Up to 14 events a rollout, with stop or cancel, leave half of a slice's history to changes of limits; also the most repeats. */
const MOST_ROLLOUTS_PER_SLICE = 300;

/** Half of what a history may have: the rest is for changes of limits. */
const EVENTS_OF_BATCH = 4800;
/** What a slice costs its batch at most: start and end 9, its share passed on or its stop 5, that its groups are complete 4. */
const EVENTS_OF_SLICE = 19;
/** A signal that has a workflow task to itself. */
const EVENTS_OF_TALLY = 4;
const MOST_TALLIES = 10;

/** Far fewer than the 2,000 children that Temporal lets a workflow have at once. */
export const MOST_SLICES = Math.floor(EVENTS_OF_BATCH / EVENTS_OF_SLICE);

/** The largest batch, in samples: 75,600 rollouts where `num_repeats` divides 300, 38,052 at worst (151 repeats). */
export const mostSamples = ({ num_repeats }: { num_repeats: number }): number =>
  MOST_SLICES * Math.floor(MOST_ROLLOUTS_PER_SLICE / num_repeats);

/**
 * How often each slice tells its batch its counts: the more slices, the less often, and not at all before its end from
 * about 210 slices on.
 */
export function talliesOf(slices: number): number {
  const left = EVENTS_OF_BATCH / Math.max(1, slices) - EVENTS_OF_SLICE;
  return Math.max(0, Math.min(MOST_TALLIES, Math.floor(left / EVENTS_OF_TALLY)));
}

/** Rows `first` to `last`, both included. */
export interface RowRange {
  first: number;
  last: number;
}

/**
 * What slices run and close, and what the batch joins: the same everywhere, since only the size decides. Slices of a
 * batch that would have too many of them are larger.
 */
export function slicesOf({
  samples,
  num_repeats,
}: {
  samples: number;
  num_repeats: number;
}): RowRange[] {
  const groupsIn = (rollouts: number): number => Math.max(1, Math.floor(rollouts / num_repeats));
  const rows = Math.min(
    groupsIn(MOST_ROLLOUTS_PER_SLICE),
    Math.max(groupsIn(ROLLOUTS_PER_SLICE), Math.ceil(samples / MOST_SLICES)),
  );
  return Array.from({ length: Math.ceil(samples / rows) }, (_, i) => ({
    first: i * rows,
    last: Math.min(samples, (i + 1) * rows) - 1,
  }));
}
