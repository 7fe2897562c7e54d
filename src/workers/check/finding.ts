/** The result of a check for one part of a deployment. */
export interface Finding extends Found {
  /** Its name in temporal.yaml. */
  part: string;
}

/** What was found of a part. */
export interface Found {
  /** `limited`: rollouts can be played, but something useful is unavailable. */
  state: 'ok' | 'limited' | 'broken';
  what: string;
  /** Rollouts wait, as far as is known. */
  waits?: true;
  /** A remedy; absent: nothing to do. */
  remedy?: string;
}

export const ok = (what: string): Found => ({ state: 'ok', what });

export const limited = (what: string, remedy: string): Found => ({
  state: 'limited',
  what,
  remedy,
});

export const broken = (what: string, remedy: string): Found => ({ state: 'broken', what, remedy });

export const findingsOf = (part: string, found: readonly Found[]): Finding[] =>
  found.map((one) => ({ part, ...one }));

/** The longest wait for an answer. */
export const ANSWERS_WITHIN_MS = 30_000;
