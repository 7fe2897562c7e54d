import { condition } from '@temporalio/workflow';
import type {
  Admitted,
  Served,
  StepFact,
  StreamPlan,
  StreamState,
} from '../../activities/contract/stream.js';
import type { NextStep } from '../../model/workflow-safe/stream/next-step.js';
import { nextStep } from '../../model/workflow-safe/stream/next-step.js';
import { roomForAdmission } from '../../model/workflow-safe/stream/pacing.js';
import type { Out, PacingSettings, PacingState } from '../../model/workflow-safe/stream/state.js';
import {
  NONE_OUT,
  countedOut,
  withAdmitted,
  withAsk,
  withComplete,
  withOut,
  withServed,
  withStep,
} from '../../model/workflow-safe/stream/state.js';

export type Stream = ReturnType<typeof openStream>;

/** The state of a stream in its workflow. All of it goes to the next run. */
export function openStream(plan: StreamPlan) {
  let state = plan.found;
  let settings = plan.pacing;
  let isNews = true;
  const set = (change: Partial<StreamState>): void => {
    state = { ...state, ...change };
    isNews = true;
  };
  const change = (by: (pacing: PacingState) => PacingState): void => {
    set({ pacing: by(state.pacing) });
  };
  return {
    plan,
    now: () => state,
    pacing: () => state.pacing,
    settings: () => settings,
    setMaxInFlight: (max_in_flight: number): void => {
      settings = { ...settings, max_in_flight };
      set({});
    },
    served: (): Served => {
      const { pacing, is_published, born, waiting = null } = state;
      return { served: pacing.served, is_published, born, target: pacing.target, waiting };
    },
    serves: (served: Served): void => {
      set(withNews(state, served));
    },
    /** The next step is requested, at this version if one is given. */
    asked: (given: number | undefined): void => {
      set(withGiven(state, given));
    },
    change,
    room: () => (isBlind(state, settings) ? 0 : roomForAdmission(state.pacing, settings)),
    /** The version at which they are born, for all that is known here; null: nobody knows. */
    born: () => bornOf(state),
    admitted: (groups: readonly Admitted[]): void => {
      for (const { born } of groups)
        change((pacing) => withAdmitted(pacing, { ...settings, born }));
    },
    completed: (group: number): void => {
      change((now) => withComplete(now, group));
    },
    out: (group: number, as: Out): void => {
      const pacing = withOut(state.pacing, { group, outcome: as });
      if (pacing !== state.pacing) set({ pacing, out: [...state.out, { group, as }] });
    },
    next: () => nextStep(state.is_versioned ? state.pacing : unversioned(state.pacing), settings),
    factOf: (next: NextStep & { ready: true }) => factOf(next, state),
    put: ({ version, groups }: StepFact): void => {
      const pacing = withStep(state.pacing, { version: version ?? 0, groups });
      set({ pacing, out: [], admitted_before: pacing.admitted });
    },
    forgotten: (through: number): void => {
      set({ kept_from: Math.max(state.kept_from, through + 1) });
    },
    /** Something else has changed that the algorithm depends on. */
    touch: (): void => {
      set({});
    },
    /** Resolves when anything has changed since the last call. */
    news: async (): Promise<void> => {
      await condition(() => isNews);
      isNews = false;
    },
    forNextRun: (): StreamPlan => ({ ...plan, pacing: settings, found: state }),
  };
}

function withNews(
  state: StreamState,
  { served, is_published, born, target = null, waiting = null }: Served,
): Partial<StreamState> {
  const { pacing, is_versioned } = state;
  return {
    pacing: { ...withServed(pacing, served), target: maxOf(pacing.target, target) },
    is_published,
    is_versioned: is_versioned || is_published,
    waiting,
    ...(born !== undefined && { born }),
  };
}

const maxOf = (a: number | null = null, b: number | null = null): number | null =>
  a === null || b === null ? (a ?? b) : Math.max(a, b);

const bornOf = ({ pacing, is_published, is_versioned, born }: StreamState): number | null => {
  if (is_published && born !== undefined) return born;
  return is_versioned ? pacing.served : null;
};

/**
 * Whether groups would be admitted only to be dropped or masked, because nobody will know how old they are. If the
 * trainer asks without a version and nothing is published, nobody ever will, and nothing is too old.
 */
const isBlind = (state: StreamState, { when_stale }: PacingSettings): boolean =>
  when_stale !== 'wait' &&
  bornOf(state) === null &&
  (state.is_versioned || state.pacing.version === null);

/** As long as nobody knows any version, no group is too old. */
const unversioned = (pacing: PacingState): PacingState => ({
  ...pacing,
  groups: pacing.groups.map((group) => ({ ...group, born: group.born ?? pacing.served })),
});

/**
 * Without a policy, the trainer's requests are the only source of the served version. Nobody knows it of what was
 * admitted before its first request.
 */
function withGiven(state: StreamState, given: number | undefined): StreamState {
  const { pacing, is_versioned, is_published } = state;
  const moved = given === undefined || is_published ? pacing : withServed(pacing, given);
  // The trainer's weights are those that it has published last, also while they are on their way to the engines.
  const latest = Math.max(moved.served, moved.target ?? 0, moved.last_version ?? 0);
  const version = given ?? latest;
  return {
    ...state,
    pacing: withAsk(moved, { version }),
    is_versioned: is_versioned || given !== undefined,
  };
}

function factOf(
  { version, groups, final }: NextStep & { ready: true },
  { pacing, is_versioned, out, admitted_before }: StreamState,
): StepFact {
  const open = pacing.groups.filter(({ group }) => !groups.includes(group));
  const inFlight = open.filter(({ state }) => state === 'running').length;
  const counts = out.reduce((sum, { as }) => countedOut(sum, as), NONE_OUT);
  return {
    schema_version: 1,
    step: pacing.next_step,
    version: is_versioned ? version : null,
    groups: [...groups].sort((a, b) => a - b),
    final,
    open: open.map(({ group }) => group),
    out,
    admitted: pacing.admitted,
    totals: { ...pacing.out, delivered: pacing.out.delivered + groups.length },
    counts: {
      in_flight: inFlight,
      banked: open.length - inFlight,
      ...counts,
      admitted: pacing.admitted - admitted_before,
    },
  };
}

export const runningOf = (stream: Stream): number[] =>
  stream
    .pacing()
    .groups.filter(({ state }) => state === 'running')
    .map(({ group }) => group);

/** Places of the rollouts of running groups, without replacements. */
export const membersOf = (stream: Stream): [row: number, repeat: number][] =>
  runningOf(stream).flatMap((group) =>
    Array.from({ length: stream.settings().num_repeats }, (_, repeat): [number, number] => [
      group,
      repeat,
    ]),
  );
