/**
 * A slice is whole groups. A parent's workflow tasks run one after the other, so smaller slices start and gather
 * faster. Still smaller ones than these gain nothing (lab/bench/README.md). A batch of one slice runs its rollouts itself.
 */
export const ROLLOUTS_PER_SLICE = 128;

/** At 14 events each, half of a history is left to changes of limits. It is also the limit of repeats. */
const MOST_ROLLOUTS_PER_SLICE = 300;

/** Half of the events that a history may have: the rest is for updates. */
export const EVENTS_OF_BATCH = 4800;
/** Events that a slice costs its batch at most: start and end 9, passing on its share or stopping it 5. */
const EVENTS_OF_SLICE = 14;
/** A signal with its own workflow task. */
const EVENTS_OF_TALLY = 4;
const MOST_TALLIES = 10;

/** Their events leave room for one tally each. Far below the 2,000 open children that Temporal allows. */
export const MOST_SLICES = 252;

/** The largest batch, in samples: 75,600 rollouts if `num_repeats` divides 300, 38,052 at worst (151 repeats). */
export const mostSamples = ({ num_repeats }: { num_repeats: number }): number =>
  MOST_SLICES * Math.floor(MOST_ROLLOUTS_PER_SLICE / num_repeats);

/** How often each slice reports counts and ended groups before its end: less often with more slices. */
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
 * The slices of a batch. They depend only on its size, so running, closing and joining agree. If there would be too many,
 * they are larger.
 */
export function slicesOf(samples: number, { num_repeats }: { num_repeats: number }): RowRange[] {
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

export const rowsOf = ({ first, last }: RowRange): number[] =>
  Array.from({ length: last - first + 1 }, (_, i) => first + i);

export const sliceId = (batch_id: string, { first, last }: RowRange): string =>
  `${batch_id}/rows-${first}-${last}`;
