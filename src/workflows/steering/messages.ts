import { defineQuery, defineSignal, defineUpdate, setHandler } from '@temporalio/workflow';
import type {
  BatchProgress,
  PolicyStatus,
  PublishResult,
  RolloutProgress,
  Tally,
  Waiting,
} from '../../activities/contract.js';
import type {
  GroupNews,
  StepAsked,
  NextStepAnswer,
  StreamProgress,
} from '../../activities/contract/stream.js';
import type { GroupsAnswer, GroupsRequest } from '../../model/workflow-safe/groups.js';
import type { PhaseNews } from '../../model/workflow-safe/policy.js';
import type { Limits, LimitsChange } from '../../model/workflow-safe/limits.js';

/** Ends what runs, keeps what is there; nothing new starts after it. For batches, slices and rollouts. */
export const stopSignal = defineSignal('stop');

/** From an activity of this workflow: its engine is absent, or (null) back. */
export const waitingSignal = defineSignal<[Waiting | null]>('waiting');

/** From a batch to a slice: how many rollouts it may have in flight, and under `refill` how many it may replace in all. */
export const shareSignal = defineSignal<[number, number?]>('share');

/** From a slice (by its first row) to its batch, a few times while it runs: its counts, and the groups that have ended since. */
export const tallySignal =
  defineSignal<[{ first: number; tally: Tally; ended?: number[] }]>('tally');

/** Of a batch: how many rollouts may run at once. Those that run stay; returns what is in force. */
export const setMaxInFlightUpdate = defineUpdate<
  { max_in_flight: number },
  [{ max_in_flight: number }]
>('set_max_in_flight');

/** Of a batch, for its rollouts that run and that start later, or of one rollout; returns what is in force. */
export const setLimitsUpdate = defineUpdate<Limits, [LimitsChange]>('set_limits');

/** Of a batch: groups that have ended, in files that are written where somebody asks. */
export const groupsUpdate = defineUpdate<GroupsAnswer, [GroupsRequest]>('groups');

/** `set_limits` on its way from a batch to slices and rollouts that run. */
export const limitsSignal = defineSignal<[LimitsChange]>('limits');

/** Where a child that starts later finds them. */
export const LIMITS_MEMO = 'limits';

/** Of workflow `policy`: weights for all replicas. Its input goes to the first activity unread. */
export const publishUpdate = defineUpdate<PublishResult, [unknown]>('publish');

/** From an activity of a policy: where a replica is that takes long. */
export const phaseSignal = defineSignal<[PhaseNews]>('phase');

/** From any worker: the record says that something is to be mended. */
export const recoverSignal = defineSignal('recover');

/** Of a stream: a step, the next one or one that is kept; the answer is bounded by `wait`. */
export const nextStepUpdate = defineUpdate<NextStepAnswer, [StepAsked]>('next_step');

/** Of a stream: deletes delivered steps up to this one; answers which is the first that is kept. */
export const forgetUpdate = defineUpdate<{ kept_from: number }, [{ through: number }]>('forget');

/** From a group to its stream, once. */
export const groupSignal = defineSignal<[GroupNews]>('group');

export const streamProgressQuery = defineQuery<StreamProgress>('progress');
export const policyStatusQuery = defineQuery<PolicyStatus>('status');
export const batchProgressQuery = defineQuery<BatchProgress>('progress');
export const sliceProgressQuery = defineQuery<Tally>('progress');
export const rolloutProgressQuery = defineQuery<RolloutProgress>('progress');

/** For a batch or a slice: calls back once, however often the signal comes. */
export function onStop(stop: () => void): void {
  let isStopped = false;
  setHandler(stopSignal, () => {
    if (isStopped) return;
    isStopped = true;
    stop();
  });
}

/** Nobody waits for a signal to arrive: whoever it can't reach may just have ended, and its result says so. */
export function tell(sent: Promise<void> | null | undefined): void {
  sent?.catch(() => undefined);
}

/**
 * Sends news to many children in rounds: while one is on its way, what comes later waits and goes out as one. A workflow
 * may have 2,000 signals on their way.
 */
export function inRounds<T extends object>(
  send: (news: T) => (Promise<void> | undefined)[],
): (news: T) => void {
  let onTheirWay = 0;
  let waiting: T | null = null;
  const arrived = (): void => {
    onTheirWay -= 1;
    if (onTheirWay > 0 || waiting === null) return;
    const news = waiting;
    waiting = null;
    round(news);
  };
  const round = (news: T): void => {
    for (const sent of send(news)) {
      if (sent === undefined) continue;
      onTheirWay += 1;
      sent.then(arrived, arrived);
    }
  };
  return (news) => {
    if (onTheirWay > 0) waiting = { ...waiting, ...news };
    else round(news);
  };
}
