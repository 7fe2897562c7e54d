import type { StreamRequest } from '../../stream/stream-request.js';
import { sumOf } from '../failures.js';
import type { PolicyView, Failures } from '../../results/answers.js';
import { isServing } from '../policy.js';

/** What decides admissions and steps, and its transitions. Plain JSON: the next run receives it. */

export type PacingSettings = Pick<
  StreamRequest,
  | 'groups_per_step'
  | 'max_lag'
  | 'versions_per_step'
  | 'when_stale'
  | 'num_repeats'
  | 'max_in_flight'
  | 'epochs'
> & { samples: number };

/** A group that is neither delivered nor discarded. */
export interface OpenGroup {
  group: number;
  /** The version served when it was admitted: no token of it is older; null: nobody knows, so it counts as too old. */
  born: number | null;
  state: 'running' | 'complete';
  /** How many of its rollouts run, by the last report. */
  in_flight: number;
}

/** Undelivered: all rewards are the same, no token trains, it would be too old, too few members are valid. */
export const OUTS = ['filtered', 'untrained', 'dropped', 'failed'] as const;
export type Out = (typeof OUTS)[number];

/** `untrained` is absent where there are none. */
export type OutCounts = Record<Exclude<Out, 'untrained'>, number> & { untrained?: number };

export const countOf = (counts: OutCounts): number =>
  OUTS.reduce((sum, out) => sum + (counts[out] ?? 0), 0);

export const countedOut = <T extends OutCounts>(counts: T, out: Out): T => ({
  ...counts,
  [out]: (counts[out] ?? 0) + 1,
});

export interface PacingState {
  /** The lowest version of tokens from now on, 0 if nobody knows one. It never falls. */
  served: number;
  /** The highest version that anyone has published; absent or null: none. */
  target?: number | null;
  /** Steps count from 0. */
  next_step: number;
  /** V of `next_step` as requested; null: not yet requested. */
  version: number | null;
  /** V of the previous step; null: there was none. */
  last_version: number | null;
  /** How many groups have been admitted: the number of the next one. */
  admitted: number;
  /** In the order of their numbers. */
  groups: OpenGroup[];
  /** Discarded groups since the last complete one; `told`: `StreamStarved` has been answered for them. */
  out_in_row: OutCounts & { told: boolean };
  /** All groups that have left: discarded, by reason, or delivered. */
  out: OutCounts & { delivered: number };
  /** The failures of rollouts in groups that have ended since the last step; absent: none. */
  failures?: Failures;
}

export const NONE_OUT: OutCounts = { filtered: 0, dropped: 0, failed: 0 };

/** A stream that begins, or continues from the store. */
export function pacingFrom(
  found: Partial<Omit<PacingState, 'version' | 'out_in_row'>> = {},
): PacingState {
  const groups = (found.groups ?? []).toSorted((a, b) => a.group - b.group);
  const last_version = found.last_version ?? null;
  return {
    next_step: found.next_step ?? 0,
    version: null,
    last_version,
    admitted: Math.max(found.admitted ?? 0, ...groups.map(({ group }) => group + 1)),
    groups,
    out_in_row: { ...NONE_OUT, told: false },
    out: found.out ?? { ...NONE_OUT, delivered: 0 },
    ...(found.failures !== undefined && { failures: found.failures }),
    // Nothing serves less than what a group was born at.
    served: Math.max(found.served ?? 0, ...groups.map(({ born }) => born ?? 0)),
  };
}

/** The lowest version that is served by a record; null: some replica serves weights that nobody published. */
export function lowestServed({ version, replicas }: PolicyView): number | null {
  const current = Object.values(replicas).filter(isServing);
  const versions = [version, ...current.map((replica) => replica.version)];
  const known = versions.filter((one) => one !== null);
  return known.length < versions.length ? null : Math.min(...known);
}

/** From the record, or without a policy workflow (null) as last given. An unknown version changes nothing. */
export function servedOf(
  { served }: Pick<PacingState, 'served'>,
  { policy, given }: { policy: PolicyView | null; given: number | null },
): number {
  return Math.max(served, (policy === null ? given : lowestServed(policy)) ?? served);
}

export const withServed = (state: PacingState, served: number): PacingState => ({
  ...state,
  served: Math.max(state.served, served),
});

/**
 * The next step is requested. `version` is absent if the trainer accepts the served one. A repeated request for the
 * same step uses the `version` of the state, so a version that rises in between is one more for this step.
 */
export const withAsk = (state: PacingState, { version }: { version?: number }): PacingState => ({
  ...state,
  version: version ?? state.served,
  out_in_row: state.out_in_row.told ? { ...NONE_OUT, told: false } : state.out_in_row,
});

/** `StreamStarved` has been answered: the next request tries as many more. */
export const withStarvationReported = (state: PacingState): PacingState => ({
  ...state,
  out_in_row: { ...state.out_in_row, told: true },
});

/** Its number is the previous value of `admitted`. */
export const withAdmitted = (
  state: PacingState,
  { num_repeats, born }: Pick<PacingSettings, 'num_repeats'> & Pick<OpenGroup, 'born'>,
): PacingState => ({
  ...state,
  admitted: state.admitted + 1,
  groups: [
    ...state.groups,
    { group: state.admitted, born, state: 'running', in_flight: num_repeats },
  ],
});

/** A group that is no longer open changes nothing, because its signal may be late. */
export function withComplete(state: PacingState, group: number): PacingState {
  if (!isOpen(state, group)) return state;
  return {
    ...state,
    groups: state.groups.map((one) =>
      one.group === group ? { ...one, state: 'complete', in_flight: 0 } : one,
    ),
    out_in_row: { ...NONE_OUT, told: false },
  };
}

/** Likewise. */
export function withOut(
  state: PacingState,
  { group, outcome }: { group: number; outcome: Out },
): PacingState {
  if (!isOpen(state, group)) return state;
  const { out, out_in_row } = state;
  return {
    ...state,
    groups: state.groups.filter((one) => one.group !== group),
    out: countedOut(out, outcome),
    out_in_row: countedOut(out_in_row, outcome),
  };
}

/** Counts the failed rollouts of a group that has just ended. Its signal may come twice. */
export function withFailures(
  state: PacingState,
  { group, failures }: { group: number; failures: Failures | undefined },
): PacingState {
  const runs = state.groups.some((one) => one.group === group && one.state === 'running');
  if (!runs || failures === undefined) return state;
  return { ...state, failures: sumOf([state.failures, failures]) };
}

const isOpen = ({ groups }: PacingState, group: number): boolean =>
  groups.some((one) => one.group === group);

export const withStep = (
  state: PacingState,
  { version, groups }: { version: number; groups: readonly number[] },
): PacingState => ({
  ...state,
  next_step: state.next_step + 1,
  version: null,
  last_version: version,
  groups: state.groups.filter(({ group }) => !groups.includes(group)),
  out: { ...state.out, delivered: state.out.delivered + groups.length },
  failures: {},
  out_in_row: { ...NONE_OUT, told: false },
});
