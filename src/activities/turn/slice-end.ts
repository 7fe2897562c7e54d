/**
 * A slice costs some 15 ms of CPU, a hundredth of this, and who waits for a slot waits no longer than this and the turn
 * in progress.
 */
export const CROWDED_SLICE_MS = 2000;

interface Played {
  played_ms: number;
  turn_slice_ms: number;
  /** Others may wait for what this rollout holds. */
  isCrowded: boolean;
}

/** Asked between two turns. An activity plays on as long as nobody else needs its place. */
export const isSliceOver = ({ played_ms, turn_slice_ms, isCrowded }: Played): boolean =>
  played_ms >= (isCrowded ? Math.min(turn_slice_ms, CROWDED_SLICE_MS) : turn_slice_ms);
