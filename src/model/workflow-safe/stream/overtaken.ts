import { listed } from './next-step.js';
import type { PacingSettings, PacingState } from './state.js';

/** Groups that are too old all the same, since versions moved by more than the request says. They come first. */
export interface Overtaken {
  groups: readonly number[];
  /** How many versions their oldest tokens are behind. */
  behind: number;
  version: number;
  /** The version of the previous step; null: there is none, or nobody knows it. */
  before: number | null;
}

type Rule = Pick<PacingSettings, 'max_lag' | 'versions_per_step'>;

/** `verb`: for one group and for several. */
export function overtakenText(
  { groups, behind, version, before, verb }: Overtaken & { verb: readonly [string, string] },
  { max_lag, versions_per_step }: Rule,
): string {
  const isJump = before !== null && version - before > versions_per_step;
  const jump = isJump
    ? `; versions went from ${before} to ${version} in one step, versions_per_step is ${versions_per_step}`
    : '';
  const [one, several] = verb;
  return `${listed(groups)} ${groups.length === 1 ? one : several} tokens up to ${behind} versions behind version ${version}, max_lag is ${max_lag}${jump}`;
}

/** Why a requested step waits; null: nothing is too old, or the request says what becomes of it. */
export function whatIsOvertaken(
  { version, last_version: before, groups }: PacingState,
  settings: PacingSettings,
): string | null {
  if (version === null || settings.when_stale !== 'wait') return null;
  const old = groups.flatMap(({ group, born }) =>
    born !== null && version - born > settings.max_lag ? [{ group, born }] : [],
  );
  if (old.length === 0) return null;
  const behind = version - Math.min(...old.map(({ born }) => born));
  const overtaken = { groups: old.map(({ group }) => group), behind, version, before };
  return `${overtakenText({ ...overtaken, verb: ['may have', 'may have'] }, settings)}: they come first`;
}
