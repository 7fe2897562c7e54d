import type { PacingSettings } from './state.js';

/** Generated tokens from `start` up to but excluding `end`. */
export interface TokenRun {
  start: number;
  end: number;
}

/**
 * The runs of a row's tokens that are too old for a step of `version`, in order and not adjacent. A token without a
 * version may be as old as its group; if nobody knows how old that is, it is too old.
 */
export function tooOldRuns(
  runs: readonly (TokenRun & { version: string | null })[],
  {
    born,
    version,
    max_lag,
  }: { born: number | null; version: number } & Pick<PacingSettings, 'max_lag'>,
): TokenRun[] {
  const old: TokenRun[] = [];
  for (const { start, end, version: label } of runs) {
    const sampled = versionOf(label) ?? born;
    if (sampled !== null && sampled >= version - max_lag) continue;
    const last = old.at(-1);
    if (last?.end === start) last.end = end;
    else old.push({ start, end });
  }
  return old;
}

/** Labels are texts, and those of `publish` are whole numbers; null: unknown. */
export const versionOf = (label: string | null): number | null =>
  label !== null && /^\d{1,15}$/.test(label) ? Number(label) : null;
