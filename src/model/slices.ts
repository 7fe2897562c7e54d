/**
 * A slice is whole groups, of this many rollouts or a single larger group (at most 300 repeats): up to 14 events a
 * rollout, with stop or cancel, keep its history under 5,000. A parent's workflow tasks come one after the other, so
 * smaller slices start and gather faster; still smaller ones gain nothing (bench/README.md). A batch of one slice runs
 * its rollouts itself.
 */
export const ROLLOUTS_PER_SLICE = 128;

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
