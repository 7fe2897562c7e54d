import type { Client, WorkflowExecutionDescription } from '@temporalio/client';
import { defaultPayloadConverter } from '@temporalio/common';
import { waitIn } from '../activities/waits.js';
import type { Waiting } from '../model/results/answers.js';
import {
  REPAIR,
  operatorsHand,
  takenSlots,
  unpolledQueue,
} from '../model/workflow-safe/waiting.js';
import { whyTaskFails } from '../temporal/failing-task.js';
import { backlogOf, lastSign, mayBeAlive } from '../temporal/pollers.js';
import { whyPaused } from '../temporal/workflow-status.js';

/** temporal.api.enums.v1.PendingActivityState, which none of the SDK's packages exports by name. */
const [SCHEDULED, PAUSED] = [1, 4];

type Described = Pick<WorkflowExecutionDescription, 'status' | 'workflowId' | 'raw'>;
type Asking = Pick<Client, 'workflowService' | 'options'>;

/**
 * What a workflow waits for, as Temporal describes it: what nobody of ours runs to say (a pause, a workflow task that
 * fails, a task queue without a worker), else what an attempt of one of its activities has said in its last heartbeat
 * (activities/waits.ts). `slots`: also that it waits for a slot, which a batch counts by itself.
 */
export async function waitOfDescribed(
  { raw, workflowId: id, status }: Described,
  { client, slots = false }: { client: Asking; slots?: boolean },
): Promise<Waiting | null> {
  const paused = whyPaused({ status, workflowId: id });
  if (paused !== null) return operatorsHand(paused);
  const why = await whyTaskFails(client, raw);
  if (why !== null) return { service: REPAIR, message: why };
  const asked = new Set<string>();
  let crowded: Waiting | null = null;
  for (const { activityId, state, ...activity } of raw.pendingActivities ?? []) {
    if (Number(state) === PAUSED)
      return operatorsHand(
        `activity ${activityId ?? ''} of ${id} is paused; temporal activity unpause --workflow-id ${id} --activity-id ${activityId ?? ''} ends the pause`,
      );
    const queue = activity.activityOptions?.taskQueue?.name ?? '';
    if (Number(state) === SCHEDULED && queue !== '' && !asked.has(queue)) {
      asked.add(queue);
      const unpolled = await waitOfQueue(queue, { client });
      if (unpolled !== null) return unpolled;
      if (slots) crowded ??= await crowdedQueue(queue, client);
    }
    for (const payload of activity.heartbeatDetails?.payloads ?? []) {
      const wait = waitIn(defaultPayloadConverter.fromPayload(payload));
      if (wait !== null) return wait;
    }
  }
  return crowded;
}

/** A queue of activities, as pollers.ts asks about it. */
const queueOf = (name: string, { options: { namespace } }: Asking) =>
  ({ namespace, name, type: 'activity' }) as const;

/** That tasks of a queue wait, because all slots of its workers are taken; null: none waits, or nobody knows. */
async function crowdedQueue(name: string, client: Asking): Promise<Waiting | null> {
  const asking = backlogOf(client.workflowService, queueOf(name, client));
  const backlog = await asking.catch(() => null);
  return backlog === null || backlog === 0 ? null : takenSlots(name, backlog);
}

/** The wait for a worker that polls a queue of activities; null: one does. `ifUsed`: only while a task waits in it. */
export async function waitOfQueue(
  name: string,
  { client, ifUsed = false }: { client: Asking; ifUsed?: boolean },
): Promise<Waiting | null> {
  const queue = queueOf(name, client);
  if (mayBeAlive(await lastSign(client.workflowService, queue))) return null;
  const isUnused = ifUsed && (await backlogOf(client.workflowService, queue)) === 0;
  return isUnused ? null : unpolledQueue(name);
}
