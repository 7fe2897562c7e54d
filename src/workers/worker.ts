import { hostname } from 'node:os';
import { Worker } from '@temporalio/worker';
import { dataConverter } from '../activities/contract/data-converter.js';
import type { AllActivities } from '../activities/contract/stream.js';
import type { StoreIds } from '../trajectories/trajectory-store.js';
import { workerIdentity } from '../temporal/pollers.js';
import { bundlePath } from './build-bundle.js';
import type { Config } from './config.js';
import { memoryOf } from './config.js';
import type { Connected } from './connect.js';
import type { RoleQueue } from './queues.js';
import { ownQueues } from './slots.js';
import { heartbeatMs } from './worker-settings.js';
import { workflowThread } from './workflow-thread.js';

/** The heartbeat timeout of activities other than turns (workflows/activity-options.ts). */
const PLANNING_HEARTBEAT_MS = 10_000;

/** By role: what plays rollouts. Everything else is of role workflow. */
const PLAYS = {
  generation: ['openRollout', 'playTurns', 'generateTurn'],
  environment: ['stepEnvironment', 'playTurns'],
} as const;

function activitiesOf(role: RoleQueue['role'], all: AllActivities): object {
  const played: readonly string[] = Object.values(PLAYS).flat();
  const isOwn = (name: string): boolean =>
    role === 'workflow' ? !played.includes(name) : PLAYS[role].some((own: string) => own === name);
  return Object.fromEntries(Object.entries(all).filter(([name]) => isOwn(name)));
}

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
  ids?: StoreIds;
  run?: string | null;
}): Promise<Worker[]> {
  const heartbeat = Math.min(heartbeatMs(config, false), PLANNING_HEARTBEAT_MS);
  const place = { pid: process.pid, host: hostname(), run };
  // Only the names of workers with workflows tell their generation services.
  const services = Object.keys(config.generation);
  const playing = {
    workflowBundle: { codePath: bundlePath },
    ...workflowThread,
    maxCachedWorkflows: memoryOf(config).cached_workflows,
  };
  return await Promise.all(
    ownQueues(config).map(({ role, name, slots }) =>
      Worker.create({
        ...(role === 'workflow' && playing),
        taskQueue: name,
        maxConcurrentActivityTaskExecutions: slots,
        identity: workerIdentity({ ...place, ...ids }, role === 'workflow' ? services : null),
        connection: connected.connection,
        namespace: connected.namespace,
        dataConverter,
        activities: activitiesOf(role, activities),
        // Cancellation reaches an activity with the answer to its heartbeat.
        maxHeartbeatThrottleInterval: heartbeat / 5,
        // A dead worker's cache is given up as soon as its activities are, because histories are short to replay.
        stickyQueueScheduleToStartTimeout: heartbeat,
        shutdownForceTime: '5s',
      }),
    ),
  );
}
