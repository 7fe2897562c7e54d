import type { ActivityOptions, RetryPolicy } from '@temporalio/workflow';
import { CancellationScope, proxyActivities, workflowInfo } from '@temporalio/workflow';
import type {
  Activities,
  RolloutPlan,
  UpdatedReplica,
  UpdateReplica,
} from '../activities/contract.js';
import type { StreamActivities } from '../activities/contract/stream.js';
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
 * | lookAtRollouts | 10 min | – | reads the end of every journal; the batch shows what it finds, and nothing follows from it |
 * | foldGroups | 10 min | 10 min | at most 300 journals, or one group's; whoever asks may ask again |
 * | settlePublish, concludePublish | 2 min | 10 min | short questions; a store that is away longer fails the update |
 * | surveyReplicas | 1 min | – | without it nothing can be mended |
 * | planStream | 10 min | 24 h | as planBatch |
 * | admitGroups, endGroup, dropGroups, putStep | 2 min | – | a few lines each; nothing follows from what is not put |
 * | closeStep, forgetSteps | 1 h | 1 h | as closeBatch; whoever asks may ask again |
 * | watchServed | 10 min | – | looks at the record until there is news, five minutes at most |
 * | updateReplica | 24 h | – | an attempt ends the pause itself at its limit, and another one follows a worker that is lost |
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

/** Its batch does not wait for it when it ends. */
export const { lookAtRollouts } = proxyActivities<Activities>({
  startToCloseTimeout: '10m',
  heartbeatTimeout: HEARTBEAT,
  retry: RETRY,
  cancellationType: 'TRY_CANCEL',
});

export const { settlePublish, concludePublish } = proxyActivities<Activities>({
  startToCloseTimeout: '2m',
  scheduleToCloseTimeout: '10m',
  heartbeatTimeout: HEARTBEAT,
  retry: RETRY,
});

export const { surveyReplicas } = proxyActivities<Activities>({
  startToCloseTimeout: '1m',
  heartbeatTimeout: HEARTBEAT,
  retry: RETRY,
});

export const { planStream } = proxyActivities<StreamActivities>({
  startToCloseTimeout: '10m',
  scheduleToCloseTimeout: '24h',
  heartbeatTimeout: HEARTBEAT,
  retry: RETRY,
});

/** Nothing follows from what is not put. */
export const { admitGroups, endGroup, dropGroups, putStep } = proxyActivities<StreamActivities>({
  startToCloseTimeout: '2m',
  heartbeatTimeout: HEARTBEAT,
  retry: RETRY,
});

export const { closeStep, forgetSteps } = proxyActivities<StreamActivities>({
  scheduleToCloseTimeout: '1h',
  heartbeatTimeout: HEARTBEAT,
  retry: RETRY,
});

export const { watchServed } = proxyActivities<StreamActivities>({
  startToCloseTimeout: '10m',
  heartbeatTimeout: HEARTBEAT,
  retry: RETRY,
  cancellationType: 'TRY_CANCEL',
});

/** Its own faults are final; what is retried are lost workers, a store that is away, an engine that may yet answer. */
const replicaActivity = (heartbeat_ms: number, replica: string): Activities['updateReplica'] =>
  proxyActivities<Activities>({
    startToCloseTimeout: '24h',
    heartbeatTimeout: heartbeat_ms,
    retry: RETRY,
    cancellationType: WRITES_FIRST,
    summary: replica,
  }).updateReplica;

/** An update that has begun is brought to its end. */
export const updateReplica = (
  order: UpdateReplica,
  heartbeat_ms: number,
): Promise<UpdatedReplica> =>
  CancellationScope.nonCancellable(() => replicaActivity(heartbeat_ms, order.replica)(order));

/** The version of the record, to a replica that nobody has a stream on. */
export const restoreReplica = (
  order: Pick<UpdateReplica, 'service' | 'replica'>,
  heartbeat_ms: number,
): Promise<UpdatedReplica> =>
  replicaActivity(heartbeat_ms, order.replica)({ ...order, version: null, mode: 'abort' });

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
