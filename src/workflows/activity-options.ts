import type { ActivityOptions, RetryPolicy } from '@temporalio/workflow';
import { CancellationScope, proxyActivities, workflowInfo } from '@temporalio/workflow';
import type { Activities, RolloutPlan, TurnActivity } from '../activities/contract.js';
import type {
  BringReplica,
  BroughtReplica,
  OrderTaken,
  PolicyActivities,
  PolicyOrder,
} from '../activities/contract/policy.js';
import type { AllActivities } from '../activities/contract/stream.js';
import { heartbeatWithin } from '../model/workflow-safe/heartbeats.js';
import { generationQueueOf } from '../model/workflow-safe/queues.js';
import { named } from '../platform/plain.js';

/**
 * All timeouts and retry intervals, each with its reason. Whether a fault is final is decided in `model/faults.ts`:
 * activities throw final faults as non-retryable failures. Those of a policy:
 *
 * | activity | one attempt | all attempts | why |
 * |---|---|---|---|
 * | takeOrder | 2 min | 10 min | short questions; a longer outage of the store fails the update |
 * | takeOrder: survey | 2 min | – | nothing can be repaired without it |
 * | takeOrder: begin, finish, abandon, sleep, wake | 24 h | – | bounded by pause_limit; another attempt follows a lost worker |
 * | bringReplica | 24 h | – | an attempt ends the pause at its limit, and another one follows a lost worker |
 */

/**
 * Faults pass within seconds or take minutes: 1, 2, 4, 8 s, then every 15 s, so that nothing waits long for a recovered
 * service.
 */
const RETRY: RetryPolicy = { initialInterval: '1s', backoffCoefficient: 2, maximumInterval: '15s' };

/** A dead worker is noticed in 10 s by the server alone. */
const BEATING: ActivityOptions = { heartbeatTimeout: '10s', retry: RETRY };

const OPENING_MS = 24 * 3600_000;

/**
 * The promise of a cancelled activity settles only when the activity has reported. Updates of replicas wait for that, so
 * that no replica is left between two weights. A rollout that has ended no longer waits for the promise (`untilEnd` of
 * ending.ts): whoever finishes the rollout claims its journal, so the last attempt writes nothing more.
 */
const WRITES_FIRST = 'WAIT_CANCELLATION_COMPLETED';

/** Reads the whole input once; an engine may take hours to be deployed. */
export const { planBatch, planStream } = proxyActivities<AllActivities>({
  ...BEATING,
  startToCloseTimeout: '10m',
  scheduleToCloseTimeout: '24h',
});

export interface OpeningOptions {
  summary?: string;
  /** From the batch's plan; absent: nobody knows it yet. */
  heartbeat_timeout_ms?: number | undefined;
}

/**
 * It also plays. Within `left_ms` a worker must take it, else that is a timeout; before there is a plan it then watches the
 * time itself.
 */
export const openRollout = (
  left_ms: number,
  { summary, heartbeat_timeout_ms }: OpeningOptions,
): Activities['openRollout'] =>
  proxyActivities<Activities>({
    taskQueue: generationQueueOf(workflowInfo().taskQueue),
    startToCloseTimeout: OPENING_MS,
    scheduleToCloseTimeout: OPENING_MS,
    ...BEATING,
    ...(heartbeat_timeout_ms !== undefined && {
      heartbeatTimeout: heartbeatWithin(heartbeat_timeout_ms, left_ms),
    }),
    cancellationType: WRITES_FIRST,
    ...(left_ms < OPENING_MS && { scheduleToStartTimeout: left_ms }),
    ...(summary !== undefined && { summary }),
  }).openRollout;

/** One line each; a longer outage of the store needs an operator. */
export const { findInputs, finishRollout, setLimits } = proxyActivities<Activities>({
  ...BEATING,
  startToCloseTimeout: '1m',
  scheduleToCloseTimeout: '10m',
});

/** Read or delete journals, and continue from their heartbeat; who asked for a step may ask again. */
export const { closeBatch, closeSlice, closeStep, forgetSteps } = proxyActivities<AllActivities>({
  ...BEATING,
  scheduleToCloseTimeout: '1h',
});

/** At most 300 journals, or those of one group; who asked may ask again. */
export const { foldGroups } = proxyActivities<AllActivities>({
  ...BEATING,
  scheduleToCloseTimeout: '10m',
});

/** The first reads all journals' ends, for display; the second the record until it changes. No rollout waits for them. */
export const { lookAtRollouts, watchServed } = proxyActivities<AllActivities>({
  ...BEATING,
  startToCloseTimeout: '10m',
  cancellationType: 'TRY_CANCEL',
});

/** A few lines each. The stream continues only after these facts are put. */
export const { admitGroups, endGroup, dropGroups, putStep } = proxyActivities<AllActivities>({
  ...BEATING,
  startToCloseTimeout: '2m',
});

/** Each touches all engines at once, and is always completed. */
const TOUCHING: ReadonlySet<PolicyOrder['name']> = new Set([
  'begin',
  'finish',
  'abandon',
  'sleep',
  'wake',
]);

/** Its own faults are final. Retries are for lost workers, an unavailable store, and an engine that may still answer. */
const touching = (heartbeat_ms: number, summary: string): PolicyActivities =>
  proxyActivities<PolicyActivities>({
    startToCloseTimeout: '24h',
    heartbeatTimeout: heartbeat_ms,
    retry: RETRY,
    cancellationType: WRITES_FIRST,
    summary,
  });

export function takeOrder(order: PolicyOrder, heartbeat_ms = 10_000): Promise<OrderTaken> {
  const { name: summary } = order;
  if (TOUCHING.has(summary))
    return CancellationScope.nonCancellable(() => touching(heartbeat_ms, summary).takeOrder(order));
  return proxyActivities<PolicyActivities>({
    ...BEATING,
    startToCloseTimeout: '2m',
    ...(summary !== 'survey' && { scheduleToCloseTimeout: '10m' }),
    summary,
  }).takeOrder(order);
}

/** A started update is always completed. */
export const bringReplica = (input: BringReplica, heartbeat_ms: number): Promise<BroughtReplica> =>
  CancellationScope.nonCancellable(() => touching(heartbeat_ms, input.replica).bringReplica(input));

/** Brings the record's version to a replica on which nobody has a stream. */
export const restoreReplica = (
  input: Pick<BringReplica, 'service' | 'replica'>,
  heartbeat_ms: number,
): Promise<BroughtReplica> =>
  touching(heartbeat_ms, input.replica).bringReplica({ ...input, version: null, mode: 'abort' });

/** An activity of an opened rollout, until its deadline, whose timer ends the rollout. If it moves, another attempt follows. */
export function turnActivity(
  name: TurnActivity,
  { plan, turn, left_ms }: { plan: RolloutPlan; turn: number; left_ms: number },
): Activities[TurnActivity] {
  const { queues, heartbeat_timeout_ms, agent } = plan;
  const options: ActivityOptions = {
    taskQueue: queues[name],
    startToCloseTimeout: left_ms,
    heartbeatTimeout: heartbeatWithin(heartbeat_timeout_ms, left_ms),
    retry: RETRY,
    cancellationType: WRITES_FIRST,
    summary: agent === undefined ? turnsOf(name, turn) : named(agent.name),
  };
  return proxyActivities<Activities>(options)[name];
}

/** `playTurns` plays on until its slice of time is used up. */
const turnsOf = (name: TurnActivity, turn: number): string =>
  name === 'playTurns' ? `from turn ${turn}` : `turn ${turn}`;
