import type { ActivityOptions, RetryPolicy } from '@temporalio/workflow';
import { proxyActivities } from '@temporalio/workflow';
import type { Activities, RolloutPlan } from '../activities/contract.js';
import { named } from '../platform/plain.js';

/**
 * Every timeout and retry, with its reason. Which faults are final is not decided here: activities throw those as
 * non-retryable failures.
 *
 * | activity | one attempt | all attempts | why |
 * |---|---|---|---|
 * | planBatch | 10 min | 24 h | reads the whole input once; an engine may take hours to be deployed |
 * | startRollout | 5 min | 24 h | one prompt; the activity itself stops at `rollout_timeout`, which only it can read |
 * | playTurns, generateTurn, stepEnvironment, runAgent | time left | as long as the rollout | the deadline's timer cancels them; an attempt that outlives a deadline which was moved is followed by another |
 * | finishRollout | 1 min | 10 min | one line; a store that is away longer is an operator's case |
 * | closeBatch, closeSlice | 1 h | 1 h | reads every journal; goes on from its heartbeat |
 */

/** Faults pass within seconds or take minutes: 1, 2, 4, 8 s, then every 15 s, so that nothing waits long for a service that is back. */
const RETRY: RetryPolicy = { initialInterval: '1s', backoffCoefficient: 2, maximumInterval: '15s' };

/** Before a plan has told the deployment's own: a dead worker is noticed in 10 s. */
const HEARTBEAT = '10s';

export const { planBatch } = proxyActivities<Activities>({
  startToCloseTimeout: '10m',
  scheduleToCloseTimeout: '24h',
  heartbeatTimeout: HEARTBEAT,
  retry: RETRY,
});

export const { startRollout } = proxyActivities<Activities>({
  startToCloseTimeout: '5m',
  scheduleToCloseTimeout: '24h',
  heartbeatTimeout: HEARTBEAT,
  retry: RETRY,
});

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

/** The activities of one turn, until the deadline (milliseconds since the epoch). */
export function turnActivities(
  { queues, heartbeat_timeout_ms, agent }: RolloutPlan,
  { turn, deadline }: { turn: number; deadline: number },
): Pick<Activities, 'playTurns' | 'generateTurn' | 'stepEnvironment' | 'runAgent'> {
  const options: ActivityOptions = {
    startToCloseTimeout: Math.max(1, deadline - Date.now()),
    heartbeatTimeout: heartbeat_timeout_ms,
    retry: RETRY,
    // An attempt writes what it has before the rollout is finished.
    cancellationType: 'WAIT_CANCELLATION_COMPLETED',
    summary: agent === undefined ? `turn ${turn}` : named(agent.name),
  };
  const { playTurns, generateTurn } = proxyActivities<Activities>({
    ...options,
    taskQueue: queues.generation,
  });
  const { stepEnvironment, runAgent } = proxyActivities<Activities>({
    ...options,
    taskQueue: queues.environment,
  });
  return { playTurns, generateTurn, stepEnvironment, runAgent };
}
