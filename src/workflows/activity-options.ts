import type { ActivityOptions, RetryPolicy } from '@temporalio/workflow';
import { proxyActivities, workflowInfo } from '@temporalio/workflow';
import type { Activities, RolloutPlan } from '../activities/contract.js';
import { generationQueueOf } from '../model/workflow-safe/queues.js';
import { named } from '../platform/plain.js';

/**
 * Every timeout and retry, with its reason. Which faults are final is not decided here: activities throw those as
 * non-retryable failures.
 *
 * | activity | one attempt | all attempts | why |
 * |---|---|---|---|
 * | planBatch | 10 min | 24 h | reads the whole input once; an engine may take hours to be deployed |
 * | openRollout | 24 h | 24 h | it plays, too; before there is a plan only the activity itself can read `rollout_timeout`, and stops there |
 * | playTurns, generateTurn, stepEnvironment | time left | as long as the rollout | the deadline's timer cancels them; an attempt that outlives a deadline which was moved is followed by another |
 * | finishRollout | 1 min | 10 min | one line; a store that is away longer is an operator's case |
 * | closeBatch, closeSlice | 1 h | 1 h | reads every journal; goes on from its heartbeat |
 * | foldGroups | 10 min | 10 min | at most 300 journals, or one group's; whoever asks may ask again |
 */

/** Faults pass within seconds or take minutes: 1, 2, 4, 8 s, then every 15 s, so that nothing waits long for a service that is back. */
const RETRY: RetryPolicy = { initialInterval: '1s', backoffCoefficient: 2, maximumInterval: '15s' };

/** Before a plan has the deployment's own: a dead worker is noticed in 10 s. */
const HEARTBEAT = '10s';

/** A cancelled attempt writes what it has before the rollout is finished. */
const WRITES_FIRST = 'WAIT_CANCELLATION_COMPLETED';

export const { planBatch } = proxyActivities<Activities>({
  startToCloseTimeout: '10m',
  scheduleToCloseTimeout: '24h',
  heartbeatTimeout: HEARTBEAT,
  retry: RETRY,
});

export function openRollout(...given: Parameters<Activities['openRollout']>): Promise<RolloutPlan> {
  const activities = proxyActivities<Activities>({
    taskQueue: generationQueueOf(workflowInfo().taskQueue),
    startToCloseTimeout: '24h',
    scheduleToCloseTimeout: '24h',
    heartbeatTimeout: HEARTBEAT,
    retry: RETRY,
    cancellationType: WRITES_FIRST,
  });
  return activities.openRollout(...given);
}

export const { finishRollout } = proxyActivities<Activities>({
  startToCloseTimeout: '1m',
  scheduleToCloseTimeout: '10m',
  heartbeatTimeout: HEARTBEAT,
  retry: RETRY,
});

export const { closeBatch, closeSlice } = proxyActivities<Activities>({
  scheduleToCloseTimeout: '1h',
  heartbeatTimeout: HEARTBEAT,
  retry: RETRY,
});

export const { foldGroups } = proxyActivities<Activities>({
  scheduleToCloseTimeout: '10m',
  heartbeatTimeout: HEARTBEAT,
  retry: RETRY,
});

type TurnActivity = keyof RolloutPlan['queues'];

/** An activity of a rollout that has been opened, until the deadline (milliseconds since the epoch). */
export function turnActivity(
  name: TurnActivity,
  { plan, turn, deadline }: { plan: RolloutPlan; turn: number; deadline: number },
): Activities[TurnActivity] {
  const { queues, heartbeat_timeout_ms, agent } = plan;
  const options: ActivityOptions = {
    taskQueue: queues[name],
    startToCloseTimeout: Math.max(1, deadline - Date.now()),
    heartbeatTimeout: heartbeat_timeout_ms,
    retry: RETRY,
    cancellationType: WRITES_FIRST,
    summary: agent === undefined ? `turn ${turn}` : named(agent.name),
  };
  return proxyActivities<Activities>(options)[name];
}
