/** What a check of a deployment says of one of its parts. */
export interface Finding {
  /** As temporal.yaml names it. */
  part: string;
  /** `limited`: rollouts can be played, and something that a user may want is not to be had. */
  state: 'ok' | 'limited' | 'broken';
  what: string;
  /** What to do about it; absent: there is nothing to do. */
  remedy?: string;
}

/** No question waits longer for its answer. */
export const ANSWERS_WITHIN_MS = 30_000;
