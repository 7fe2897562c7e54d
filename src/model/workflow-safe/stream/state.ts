import type { PolicyView } from '../policy.js';

/** What a stream's admissions and steps are decided by, and how it changes. Plain JSON: it goes on to the next run. */

export interface PacingSettings {
  /** B: groups of a step. */
  groups_per_step: number;
  /** How many versions a token may be older than the one that trains on it. */
  max_lag: number;
  /** c: by how many versions the policy moves for each step. */
  versions_per_step: number;
  when_stale: 'wait' | 'drop' | 'mask';
  /** Rollouts of a group. */
  num_repeats: number;
  /** Rollouts of the stream at once. */
  max_in_flight: number;
  /** How many samples there are. */
  samples: number;
  /** How often all samples are played; null: without end. */
  epochs: number | null;
}

/** A group that is not out. */
export interface OpenGroup {
  group: number;
  /** What was served when it was admitted: no token of it is older. */
  born: number;
  state: 'running' | 'complete';
  /** Its rollouts that run, as far as the stream knows. */
  in_flight: number;
}

/** How a group goes out without being delivered. */
export const OUTS = ['filtered', 'dropped', 'failed'] as const;
export type Out = (typeof OUTS)[number];

export interface PacingState {
  /** The lowest version that tokens have from now on. It never falls. */
  served: number;
  /** Steps count from 0. */
  next_step: number;
  /** V of `next_step` as it was asked for; null: nobody has asked yet. */
  version: number | null;
  /** V of the step before; null: there was none. */
  last_version: number | null;
  /** How many groups have been admitted: the number of the next one. */
  admitted: number;
  /** In the order of their numbers. */
  groups: OpenGroup[];
  /** Since the last group that came complete; `told`: `StreamStarved` has been answered for them. */
  out_in_row: Record<Out, number> & { told: boolean };
  /** Of all groups that are out. */
  out: Record<Out | 'delivered', number>;
}

const NONE_OUT = { filtered: 0, dropped: 0, failed: 0 };

/** A stream that begins, or goes on from what is in the store. */
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
    // Nothing serves less than what a group was born at.
    served: Math.max(found.served ?? 0, ...groups.map(({ born }) => born)),
  };
}

/**
 * `served` by the record and its replicas; without a policy workflow (null) by the version that was given last. What is
 * served under no known version moves nothing.
 */
export function servedOf(
  { served }: Pick<PacingState, 'served'>,
  { policy, given }: { policy: PolicyView | null; given: number | null },
): number {
  const replicas = Object.values(policy?.replicas ?? {}).filter(({ state }) => state === 'current');
  const versions =
    policy === null ? [given] : [policy.version, ...replicas.map(({ version }) => version)];
  const known = versions.filter((version) => version !== null);
  return known.length < versions.length ? served : Math.max(served, Math.min(...known));
}

export const withServed = (state: PacingState, served: number): PacingState => ({
  ...state,
  served: Math.max(state.served, served),
});

/**
 * The next step is asked for; `version` is absent where the trainer leaves it to what is served. Whoever asks for the
 * same step again does so with `version` of the state: a version that rises between two asks is one more for this step.
 */
export const withAsk = (state: PacingState, { version }: { version?: number }): PacingState => ({
  ...state,
  version: version ?? state.served,
  out_in_row: state.out_in_row.told ? { ...NONE_OUT, told: false } : state.out_in_row,
});

/** `StreamStarved` has been answered: whoever asks again tries as many more. */
export const withStarvationTold = (state: PacingState): PacingState => ({
  ...state,
  out_in_row: { ...state.out_in_row, told: true },
});

/** Its number is `admitted` as it was. */
export const withAdmitted = (
  state: PacingState,
  { num_repeats }: Pick<PacingSettings, 'num_repeats'>,
): PacingState => ({
  ...state,
  admitted: state.admitted + 1,
  groups: [
    ...state.groups,
    { group: state.admitted, born: state.served, state: 'running', in_flight: num_repeats },
  ],
});

/** A group that is not open any more changes nothing: its signal may come late. */
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
    out: { ...out, [outcome]: out[outcome] + 1 },
    out_in_row: { ...out_in_row, [outcome]: out_in_row[outcome] + 1 },
  };
}

const isOpen = ({ groups }: PacingState, group: number): boolean =>
  groups.some((one) => one.group === group);

/** The next step is a fact. */
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
  out_in_row: { ...NONE_OUT, told: false },
});
