import type { WorkerOptions } from '@temporalio/worker';
import { Worker } from '@temporalio/worker';
import type { Activities } from '../activities/contract.js';
import { toMs } from '../model/durations.js';
import { bundlePath } from './build-bundle.js';
import type { Config, Role } from './config.js';
import { bytesOf } from './config.js';
import type { Connected } from './connect.js';
import { environmentQueue, generationQueue } from './parts.js';

/** The share of `worker.memory` for cached workflows, and what one weighs with its share of the SDK: measured 35 kB of heap, with head-room. */
const WORKFLOW_SHARE = 0.4;
const WORKFLOW_BYTES = 128 * 1024;

/** Planning, starting and finishing are short; their number at once bounds memory, not speed. */
const WORKFLOW_ACTIVITIES = 64;
const ENVIRONMENT_STEPS = 256;

/** The heartbeat timeout of what is not a turn (workflows/activity-options.ts). */
const PLANNING_HEARTBEAT_MS = 10_000;

type Queue = Pick<
  WorkerOptions,
  'taskQueue' | 'maxConcurrentActivityTaskExecutions' | 'maxCachedWorkflows' | 'workflowBundle'
> & {
  verbs: (keyof Activities)[];
};

/** One Worker per role and queue; only the workflow role loads the bundle. */
export async function createWorkers({
  config,
  connected,
  activities,
}: {
  config: Config;
  connected: Connected;
  activities: Activities;
}): Promise<Worker[]> {
  const heartbeat = toMs(config.worker.heartbeat_timeout);
  const queues = config.worker.roles.flatMap((role) => queuesOf(role, config));
  return await Promise.all(
    queues.map(({ verbs, ...options }) =>
      Worker.create({
        ...options,
        connection: connected.connection,
        namespace: connected.namespace,
        activities: Object.fromEntries(verbs.map((verb) => [verb, activities[verb]])),
        // Cancellation reaches an activity with its heartbeat's answer.
        maxHeartbeatThrottleInterval: Math.min(heartbeat, PLANNING_HEARTBEAT_MS) / 5,
        // A dead worker's cache is given up as soon as its activities are; histories are short to replay.
        stickyQueueScheduleToStartTimeout: heartbeat,
        shutdownForceTime: '5s',
      }),
    ),
  );
}

function queuesOf(role: Role, config: Config): Queue[] {
  const { worker, temporal, environments } = config;
  switch (role) {
    case 'workflow':
      return [
        {
          taskQueue: temporal.task_queue,
          workflowBundle: { codePath: bundlePath },
          maxCachedWorkflows: Math.max(
            16,
            Math.floor((bytesOf(worker.memory) * WORKFLOW_SHARE) / WORKFLOW_BYTES),
          ),
          maxConcurrentActivityTaskExecutions: WORKFLOW_ACTIVITIES,
          verbs: ['planBatch', 'startRollout', 'finishRollout', 'closeBatch', 'closeSlice'],
        },
      ];
    case 'generation':
      return [
        {
          taskQueue: generationQueue(config),
          maxConcurrentActivityTaskExecutions: worker.max_generations,
          verbs: ['playTurns', 'generateTurn'],
        },
      ];
    case 'environment': {
      const tasks = Object.keys(environments);
      const queues = new Set([
        `${temporal.task_queue}-environment`,
        ...tasks.map((task) => environmentQueue(config, task)),
      ]);
      return [...queues].map((taskQueue) => ({
        taskQueue,
        maxConcurrentActivityTaskExecutions: stepsAtOnce(config, taskQueue),
        verbs: ['stepEnvironment'],
      }));
    }
  }
}

/** The tightest limit of the environments on a queue: they share its slots. */
function stepsAtOnce(config: Config, queue: string): number {
  const limits = Object.entries(config.environments)
    .filter(([task]) => environmentQueue(config, task) === queue)
    .flatMap(([, settings]) => ('max_concurrent' in settings ? [settings.max_concurrent] : []))
    .filter((limit) => limit !== undefined);
  return Math.min(ENVIRONMENT_STEPS, ...limits);
}
