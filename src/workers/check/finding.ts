export interface Finding extends Found {
  /** Its name in temporal.yaml. */
  part: string;
}

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

const found =
  (state: Found['state']) =>
  (what: string, remedy: string): Found => ({ state, what, remedy });
export const limited = found('limited');
export const broken = found('broken');

export const findingsOf = (part: string, found: readonly Found[]): Finding[] =>
  found.map((one) => ({ part, ...one }));

export const ANSWERS_WITHIN_MS = 30_000;
