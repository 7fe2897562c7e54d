import type { Client } from '@temporalio/client';
import { ApplicationFailure } from '@temporalio/common';
import { processOf } from '../../temporal/pollers.js';
import { OPEN_IN_SEARCHES, onTaskQueue } from '../../temporal/workflow-status.js';

/** temporal.api.enums.v1.PendingActivityState: those in which a worker has the activity. */
const RUNNING: ReadonlySet<number> = new Set([2, 3, 5]);
/** The next attempt comes after this: nobody who looks at the same time takes it for the one before. */
const AGAIN_MS = 500;
const AT_ONCE = 8;

interface Pending {
  activityId?: string | null;
  state?: unknown;
  lastWorkerIdentity?: string | null;
}

interface Place {
  workflowId: string;
  runId: string;
}

export interface RunningActivities {
  workflows: () => AsyncIterable<Place>;
  describe: (workflow: Place) => Promise<readonly Pending[]>;
  /** Rejects if it does not run any more. */
  fail: (activity: Place & { activityId: string }, message: string) => Promise<void>;
}

export function reachActivities(client: Client, task_queue: string): RunningActivities {
  const { workflow, activity } = client;
  const query = `${onTaskQueue(task_queue)} AND ${OPEN_IN_SEARCHES}`;
  return {
    workflows: () => workflow.list({ query }),
    describe: async ({ workflowId, runId }) =>
      (await workflow.getHandle(workflowId, runId).describe()).raw.pendingActivities ?? [],
    fail: async ({ workflowId, runId, activityId }, message) => {
      const failure = { type: 'WorkerDied', message, nextRetryDelay: AGAIN_MS };
      await activity.fail({ workflowId, runId, activityId }, ApplicationFailure.create(failure));
    },
  };
}

/** Fails activities of dead processes: next attempts start at once, with what heartbeats kept. Returns how many. */
export async function giveUp(
  dead: ReadonlyMap<string, string>,
  { workflows, describe, fail }: RunningActivities,
): Promise<number> {
  const found = workflows()[Symbol.asyncIterator]();
  let failed = 0;
  const look = async (workflow: Place): Promise<void> => {
    for (const { activityId, state, lastWorkerIdentity } of await describe(workflow)) {
      const message = dead.get(processOf(lastWorkerIdentity ?? ''));
      if (message === undefined || !activityId || !RUNNING.has(Number(state))) continue;
      const { workflowId, runId } = workflow;
      // It may have ended by itself, or been given up by another worker.
      const isFailed = await fail({ workflowId, runId, activityId }, message).then(
        () => true,
        () => false,
      );
      if (isFailed) failed += 1;
    }
  };
  const inTurn = async (): Promise<void> => {
    for (let next = await found.next(); next.done !== true; next = await found.next())
      // It may have ended, or been deleted.
      await look(next.value).catch(() => undefined);
  };
  await Promise.all(Array.from({ length: AT_ONCE }, inTurn));
  return failed;
}
