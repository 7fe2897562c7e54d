import type { Failures } from '../../results/answers.js';
import { failureTexts } from '../failures.js';
import type { OpenGroup, Out, OutCounts, PacingSettings, PacingState } from './state.js';
import { OUTS } from './state.js';
import { groupsUntilStarved, isStarved, samplesLeft, stepsLeft } from './pacing.js';

/** Groups are numbers, oldest first. `dropped` groups are stopped and discarded, whether the step is ready or not. */
export type NextStep =
  | {
      ready: true;
      version: number;
      groups: number[];
      dropped: number[];
      /** It is the last step. */
      final: boolean;
    }
  | { ready: false; dropped: number[]; why: Why };

export type Why =
  | { kind: 'not_asked'; step: number; complete: number; running: number }
  /** Groups that would be too old in a later step. */
  | { kind: 'due'; step: number; groups: number[]; max_lag: number }
  | { kind: 'running'; step: number; groups_per_step: number; complete: number; running: number }
  /** No group that is admitted now can be fresh enough. */
  | { kind: 'publish'; version: number; served: number; max_lag: number; publish: number }
  /** The caller throws this as `StreamStarved` and then applies `withStarvationReported`. */
  | { kind: 'starved'; out: OutCounts; failures: Failures; more: number }
  /** The caller throws this as `StreamEnded`. */
  | { kind: 'ended'; step: number; samples: number; epochs: number };

export function nextStep(state: PacingState, settings: PacingSettings): NextStep {
  const { version, next_step: step } = state;
  if (version === null) return { ready: false, dropped: [], why: notAsked(state) };
  const left = ({ born }: OpenGroup): number => stepsLeft(born, { version, settings });
  const drops = settings.when_stale === 'drop';
  const isOverdue = (one: OpenGroup): boolean => drops && left(one) < 0;
  const overdue = state.groups.filter(isOverdue);
  const open = state.groups.filter((one) => !isOverdue(one));

  const complete = open.filter(isComplete);
  const taken = complete.slice(0, settings.groups_per_step);
  const isLast = samplesLeft(state, settings) === 0 && complete.length === open.length;
  const isFull = taken.length === settings.groups_per_step;
  const awaited =
    settings.when_stale === 'wait' && isFull ? groupsDueFirst(open, { taken, left }) : [];
  if ((isFull && awaited.length === 0) || (isLast && taken.length > 0)) {
    const late = open.filter((one) => drops && left(one) <= 0 && !isComplete(one));
    return {
      ready: true,
      version,
      groups: numbers(taken),
      dropped: numbers([...overdue, ...late]),
      final: isLast && taken.length === open.length,
    };
  }
  const why: Why =
    awaited.length > 0
      ? { kind: 'due', step, groups: numbers(awaited), max_lag: settings.max_lag }
      : whyNotFull({ ...state, groups: open, version }, settings);
  return { ready: false, dropped: numbers(overdue), why };
}

/**
 * The groups that a full step waits for. For each later step, no more groups may be due by then than the steps up to it
 * deliver. If this step takes too few of the due ones, it waits for those that run.
 */
function groupsDueFirst(
  open: readonly OpenGroup[],
  { taken, left }: { taken: readonly OpenGroup[]; left: (group: OpenGroup) => number },
): OpenGroup[] {
  for (let later = 0; later * taken.length < open.length; later++) {
    const isDue = (group: OpenGroup): boolean => Math.max(0, left(group)) <= later;
    const due = open.filter(isDue);
    const needed = Math.min(taken.length, due.length - later * taken.length);
    if (taken.filter(isDue).length < needed) return due.filter((group) => !isComplete(group));
  }
  return [];
}

function whyNotFull(state: PacingState & { version: number }, settings: PacingSettings): Why {
  const { groups, version, served, next_step: step, out_in_row, failures = {} } = state;
  const { groups_per_step, max_lag, samples, epochs } = settings;
  const isUsedUp = samplesLeft(state, settings) === 0;
  if (isUsedUp && groups.length === 0 && epochs !== null)
    return { kind: 'ended', step, samples, epochs };
  if (!isUsedUp && isStarved(state, settings)) {
    const { filtered, untrained = 0, dropped, failed } = out_in_row;
    const out = { filtered, untrained, dropped, failed };
    return { kind: 'starved', out, failures, more: groupsUntilStarved(settings) };
  }
  if (!isUsedUp && groups.length < groups_per_step && served + max_lag < version)
    return {
      kind: 'publish',
      version,
      served,
      max_lag,
      publish: publishable(state, { version, max_lag }),
    };
  return { kind: 'running', step, groups_per_step, ...countsOf(state) };
}

/** The lowest version that helps and is not below one that was published, which could not be published any more. */
const publishable = (
  { target }: Pick<PacingState, 'target'>,
  { version, max_lag }: { version: number; max_lag: number },
): number => Math.max(version - max_lag, target ?? 0);

/** For the caller, and for the line that shows a stream's state. */
export function whyText(why: Why): string {
  switch (why.kind) {
    case 'not_asked':
      return `step ${why.step} has not been asked for: ${countsText(why)}`;
    case 'due':
      return `step ${why.step} waits for ${listed(why.groups)}, which would be older in a later step than max_lag ${why.max_lag} allows`;
    case 'running':
      return `step ${why.step} takes ${counted(why.groups_per_step, 'group')}: ${countsText(why)}`;
    case 'publish':
      return `asked with version ${why.version}, replicas serve ${why.served}, max_lag ${why.max_lag}: publish ${why.publish} first`;
    case 'starved':
      return starvedText(why);
    case 'ended':
      return `${counted(why.samples, 'sample')}, ${counted(why.epochs, 'epoch')}: all are used up, there is no step ${why.step}`;
  }
}

const MEANINGS: Record<Out, string> = {
  filtered: 'all members have the same reward',
  untrained: 'no token trains, because loss_multiplier is 0 or nothing was sampled',
  dropped: 'it would be too old',
  failed: 'too few members are valid',
};
const MOST_FAILURES = 3;

function starvedText({ out, failures, more }: Why & { kind: 'starved' }): string {
  const reasons = OUTS.flatMap((one) => {
    const count = out[one] ?? 0;
    return count > 0 ? [{ count: `${count} ${one}`, meaning: `${one}: ${MEANINGS[one]}` }] : [];
  });
  const counts = reasons.map(({ count }) => count).join(', ');
  return [
    `no group to deliver among the last ones (${counts}): ask again to try ${more} more`,
    ...reasons.map(({ meaning }) => meaning),
    ...failureTexts(failures).slice(0, MOST_FAILURES),
  ].join('; ');
}

const NAMED = 5;

function listed(groups: readonly number[]): string {
  const more = groups.length > NAMED ? ` and ${groups.length - NAMED} more` : '';
  return `group${groups.length === 1 ? '' : 's'} ${groups.slice(0, NAMED).join(', ')}${more}`;
}

const counted = (count: number, name: string): string =>
  `${count} ${name}${count === 1 ? '' : 's'}`;

const countsText = ({ complete, running }: { complete: number; running: number }): string =>
  `${complete} complete, ${running} running`;

function countsOf({ groups }: PacingState): { complete: number; running: number } {
  const complete = groups.filter(isComplete).length;
  return { complete, running: groups.length - complete };
}

const notAsked = (state: PacingState): Why => ({
  kind: 'not_asked',
  step: state.next_step,
  ...countsOf(state),
});

const isComplete = ({ state }: OpenGroup): boolean => state === 'complete';
const numbers = (groups: readonly OpenGroup[]): number[] => groups.map(({ group }) => group);

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
