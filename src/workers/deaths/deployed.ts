import { hostname } from 'node:os';
import type { Client } from '@temporalio/client';
import { ApplicationFailure } from '@temporalio/common';
import { identify, runOf } from '../../platform/process/identity.js';
import { succeeds } from '../../platform/waits/abort.js';
import { askersOf, processOf, reportsOf, workerIdentity } from '../../temporal/pollers.js';
import { OPEN_IN_SEARCHES, onTaskQueue } from '../../temporal/workflow-status.js';
import type { Config } from '../config.js';
import { queuesOf } from '../queues.js';
import { hasEnded } from './has-ended.js';
import type { Deployed } from './keep.js';

export async function reachDeployed(
  client: Client,
  config: Config,
): Promise<{ run: string | null; deployed: Deployed }> {
  const { workflowService, options } = client;
  const { namespace } = options;
  const run = await runOf(await identify(process.pid));
  const place = { pid: process.pid, host: hostname(), run, store: null, results: null };
  const queues = queuesOf(config);
  const names = [...new Set(queues.map(({ name }) => name))];
  const takes = await takesReports(client);
  const deployed: Deployed = {
    own: processOf(workerIdentity(place, null)),
    reports: takes ? () => reportsOf(workflowService, { namespace, queues: names }) : null,
    askers: async () => {
      const asked = queues.map((queue) => askersOf(workflowService, { namespace, ...queue }));
      const all = new Set((await Promise.all(asked)).flat());
      const reported = takes
        ? await reportsOf(workflowService, { namespace, queues: names, also_ended: true })
        : [];
      for (const { process } of reported) all.delete(process);
      return [...all];
    },
    hasEnded,
    giveUp: (dead) => giveUp(dead, { client, task_queue: config.temporal.task_queue }),
  };
  return { run, deployed };
}

/** Servers before 1.29 do not, and some namespaces. */
async function takesReports({ workflowService, options }: Client): Promise<boolean> {
  const { namespace } = options;
  const described = await workflowService.describeNamespace({ namespace }).catch(() => null);
  return described?.namespaceInfo?.capabilities?.workerHeartbeats === true;
}

/** temporal.api.enums.v1.PendingActivityState: those in which a worker has the activity. */
const RUNNING: ReadonlySet<number> = new Set([2, 3, 5]);
/** The next attempt comes after this: nobody who looks at the same time takes it for the one before. */
const AGAIN_MS = 500;
const AT_ONCE = 8;

/**
 * Fails running activities of a deployment whose processes are dead, each with its message: next attempts start at once,
 * with what heartbeats kept. Returns how many there were.
 */
export async function giveUp(
  dead: ReadonlyMap<string, string>,
  { client: { workflow, activity }, task_queue }: { client: Client; task_queue: string },
): Promise<number> {
  const query = `${onTaskQueue(task_queue)} AND ${OPEN_IN_SEARCHES}`;
  const found = workflow.list({ query })[Symbol.asyncIterator]();
  let failed = 0;
  const look = async (place: { workflowId: string; runId: string }): Promise<void> => {
    const { raw } = await workflow.getHandle(place.workflowId, place.runId).describe();
    for (const { activityId, state, lastWorkerIdentity } of raw.pendingActivities ?? []) {
      const message = dead.get(processOf(lastWorkerIdentity ?? ''));
      if (message === undefined || !activityId || !RUNNING.has(Number(state))) continue;
      const failure = { type: 'WorkerDied', message, nextRetryDelay: AGAIN_MS };
      // It may have ended by itself, or been given up by another worker.
      const failing = activity.fail({ ...place, activityId }, ApplicationFailure.create(failure));
      if (await succeeds(failing)) failed += 1;
    }
  };
  const inTurn = async (): Promise<void> => {
    for (let next = await found.next(); next.done !== true; next = await found.next()) {
      const { workflowId, runId } = next.value;
      // It may have ended, or been deleted.
      await look({ workflowId, runId }).catch(() => undefined);
    }
  };
  await Promise.all(Array.from({ length: AT_ONCE }, inTurn));
  return failed;
}
