import { hostname } from 'node:os';
import type { WorkerOptions } from '@temporalio/worker';
import { Worker } from '@temporalio/worker';
import { dataConverter } from '../activities/contract/data-converter.js';
import type { AllActivities } from '../activities/contract/stream.js';
import type { StoreIds } from '../trajectories/trajectory-store.js';
import { workerIdentity } from '../temporal/pollers.js';
import { bundlePath } from './build-bundle.js';
import type { Config } from './config.js';
import type { Role } from './worker-settings.js';
import { memoryOf } from './config.js';
import type { Connected } from './connect.js';
import { heartbeatMs } from './deaths/heartbeat-timeout.js';
import { generationQueue } from './queues.js';
import { environmentQueues, slotsOf } from './slots.js';
import { workflowThread } from './workflow-thread.js';

/** The heartbeat timeout of activities other than turns (workflows/activity-options.ts). */
const PLANNING_HEARTBEAT_MS = 10_000;

type Queue = Pick<WorkerOptions, 'taskQueue' | 'maxCachedWorkflows' | 'workflowBundle'> &
  Partial<typeof workflowThread> & {
    verbs: (keyof AllActivities)[];
    /** Generation services that its workers' names tell; null: they do not. */
    services: readonly string[] | null;
  };

/** One Worker per role and queue. Only the workflow role loads the bundle. */
export async function createWorkers({
  config,
  connected,
  activities,
  ids = { store: null, results: null },
  run = null,
}: {
  config: Config;
  connected: Omit<Connected, 'settings'>;
  activities: AllActivities;
  /** The ids of the store. */
  ids?: StoreIds;
  /** The run of this process. */
  run?: string | null;
}): Promise<Worker[]> {
  const heartbeat = Math.min(heartbeatMs(config, false), PLANNING_HEARTBEAT_MS);
  const place = { pid: process.pid, host: hostname(), run };
  const queues = config.worker.roles.flatMap((role) => queuesOf(role, config));
  const slots = slotsOf(config);
  return await Promise.all(
    queues.map(({ verbs, services, ...options }) =>
      Worker.create({
        ...options,
        maxConcurrentActivityTaskExecutions: slots.get(options.taskQueue) ?? 0,
        identity: workerIdentity({ ...place, ...ids }, services),
        connection: connected.connection,
        namespace: connected.namespace,
        dataConverter,
        activities: Object.fromEntries(verbs.map((verb) => [verb, activities[verb]])),
        // Cancellation reaches an activity with the answer to its heartbeat.
        maxHeartbeatThrottleInterval: heartbeat / 5,
        // A dead worker's cache is given up as soon as its activities are, because histories are short to replay.
        stickyQueueScheduleToStartTimeout: heartbeat,
        shutdownForceTime: '5s',
      }),
    ),
  );
}

function queuesOf(role: Role, config: Config): Queue[] {
  const { temporal } = config;
  switch (role) {
    case 'workflow':
      return [
        {
          services: Object.keys(config.generation),
          taskQueue: temporal.task_queue,
          workflowBundle: { codePath: bundlePath },
          ...workflowThread,
          maxCachedWorkflows: memoryOf(config).cached_workflows,
          verbs: [
            'planBatch',
            'findInputs',
            'finishRollout',
            'setLimits',
            'closeBatch',
            'closeSlice',
            'lookAtRollouts',
            'foldGroups',
            ...POLICY_VERBS,
            ...STREAM_VERBS,
          ],
        },
      ];
    case 'generation':
      return [
        {
          services: null,
          taskQueue: generationQueue(config),
          verbs: ['openRollout', 'playTurns', 'generateTurn'],
        },
      ];
    // Not Temporal asks it, but programs.
    case 'gateway':
      return [];
    case 'environment':
      return environmentQueues(config).map((taskQueue) => ({
        services: null,
        taskQueue,
        verbs: ['stepEnvironment', 'playTurns'],
      }));
  }
}

const POLICY_VERBS = [
  'settlePublish',
  'updateReplica',
  'concludePublish',
  'beginTransfer',
  'finishTransfer',
  'abandonTransfer',
  'attachCheckpoint',
  'releaseHolder',
  'sleepEngines',
  'wakeEngines',
  'surveyReplicas',
  'changeReplicas',
] as const;

const STREAM_VERBS = [
  'planStream',
  'admitGroups',
  'endGroup',
  'dropGroups',
  'putStep',
  'closeStep',
  'forgetSteps',
  'watchServed',
] as const;
