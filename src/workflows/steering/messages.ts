import { defineQuery, defineSignal, defineUpdate } from '@temporalio/workflow';
import type { BatchProgress, RolloutProgress, Tally, Waiting } from '../../activities/contract.js';
import type { PolicyStatus } from '../../activities/contract/policy.js';
import type {
  GroupNews,
  StepAsked,
  NextStepAnswer,
  StreamProgress,
} from '../../activities/contract/stream.js';
import type { GroupsAnswer, GroupsRequest } from '../../model/workflow-safe/groups.js';
import type { PhaseNews } from '../../model/workflow-safe/policy.js';
import type { LimitsChange, Limits } from '../../model/workflow-safe/limits.js';

/** Ends what runs and keeps the results so far; nothing new starts afterwards. For batches, slices and rollouts. */
export const stopSignal = defineSignal('stop');

/** From an activity of this workflow: it waits for a service, or (null) no longer waits. */
export const waitingSignal = defineSignal<[Waiting | null]>('waiting');

/**
 * From a batch to a slice: how many rollouts it may have in flight, and under `refill` how many it may replace in
 * total.
 */
export const shareSignal = defineSignal<[number, number?]>('share');

/**
 * From a slice (by its first row) to its batch, a few times while it runs: its counts, and the groups that have ended
 * since.
 */
export const tallySignal =
  defineSignal<[{ first: number; tally: Tally; ended?: number[] }]>('tally');

/** To a batch: how many rollouts may run at once. Running ones stay; returns what is in force. */
export const setMaxInFlightUpdate = defineUpdate<
  { max_in_flight: number },
  [{ max_in_flight: number }]
>('set_max_in_flight');

/** To a batch, for running and later rollouts, or to one rollout; returns what is in force. */
export const setLimitsUpdate = defineUpdate<Limits, [LimitsChange]>('set_limits');

/** To a batch: returns groups that have ended, in files that are written on request. */
export const groupsUpdate = defineUpdate<GroupsAnswer, [GroupsRequest]>('groups');

/** `set_limits` on its way from a batch to slices and running rollouts. */
export const limitsSignal = defineSignal<[LimitsChange]>('limits');

/** Where a child that starts later finds them. */
export const LIMITS_MEMO = 'limits';

/** Where a rollout finds the request's `rollout_timeout` before anybody has opened it. */
export const TIMEOUT_MEMO = 'rollout_timeout';

/** Likewise the heartbeat timeout of activities that play. */
export const HEARTBEAT_MEMO = 'heartbeat_timeout_ms';

/** From the holder of the service, each minute: its process lives. */
export const holdingSignal = defineSignal<[unknown]>('holding');

/** From that trainer: so many tensors or bytes have been sent. */
export const aliveSignal = defineSignal<[unknown]>('alive');

/** From an activity of a policy: the phase of a slow replica. */
export const phaseSignal = defineSignal<[PhaseNews]>('phase');

/** From any worker: the record shows something to repair. */
export const recoverSignal = defineSignal('recover');

/** To a stream: returns the next step or a kept one; `wait` limits the waiting. */
export const nextStepUpdate = defineUpdate<NextStepAnswer, [StepAsked]>('next_step');

/** To a stream: deletes delivered steps up to this one; returns the first one that is kept. */
export const forgetUpdate = defineUpdate<{ kept_from: number }, [{ through: number }]>('forget');

/** From a group to its stream, once. */
export const groupSignal = defineSignal<[GroupNews]>('group');

export const streamProgressQuery = defineQuery<StreamProgress>('progress');
export const policyStatusQuery = defineQuery<PolicyStatus>('status');
export const batchProgressQuery = defineQuery<BatchProgress>('progress');
export const sliceProgressQuery = defineQuery<Tally>('progress');
export const rolloutProgressQuery = defineQuery<RolloutProgress>('progress');

/** Ignores the result of a signal: if its receiver has just ended, that receiver's result says so. */
export function unawaited(sent: Promise<void> | null | undefined): void {
  sent?.catch(() => undefined);
}

/**
 * Sends changes to many children in rounds: changes that come during a round go out together afterwards. A workflow may
 * have at most 2,000 signals in flight.
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
