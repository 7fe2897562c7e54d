/** The result of a check for one part of a deployment. */
export interface Finding {
  /** Its name in temporal.yaml. */
  part: string;
  /** `limited`: rollouts can be played, but something useful is unavailable. */
  state: 'ok' | 'limited' | 'broken';
  what: string;
  /** Rollouts wait, as far as is known. */
  waits?: true;
  /** A remedy; absent: nothing to do. */
  remedy?: string;
}

/** The longest wait for an answer. */
export const ANSWERS_WITHIN_MS = 30_000;
