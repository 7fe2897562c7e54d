import type { Client, WorkflowExecutionDescription } from '@temporalio/client';
import { defaultPayloadConverter } from '@temporalio/common';
import { waitIn } from '../activities/attempt.js';
import type { Waiting } from '../model/workflow-safe/waiting.js';
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

/**
 * What only Temporal knows of a workflow's wait: in no journal, and no activity runs that could say it. `slots`: also that
 * it waits for a slot, which a batch counts by itself.
 */
export async function waitOfDescribed(
  described: Pick<WorkflowExecutionDescription, 'status' | 'workflowId' | 'raw'>,
  {
    workflowService,
    options: { namespace },
    slots = false,
  }: Pick<Client, 'workflowService' | 'options'> & { slots?: boolean },
): Promise<Waiting | null> {
  const paused = whyPaused(described);
  if (paused !== null) return operatorsHand(paused);
  const why = await whyTaskFails(workflowService, { described: described.raw, namespace });
  if (why !== null) return { service: REPAIR, message: why };
  const asked = new Set<string>();
  let crowded: Waiting | null = null;
  for (const activity of described.raw.pendingActivities ?? []) {
    const { activityId, activityOptions, heartbeatDetails } = activity;
    const state = Number(activity.state);
    const id = described.workflowId;
    if (state === PAUSED)
      return operatorsHand(
        `activity ${activityId ?? ''} of ${id} is paused; temporal activity unpause --workflow-id ${id} --activity-id ${activityId ?? ''} ends the pause`,
      );
    const queue = activityOptions?.taskQueue?.name ?? '';
    const isNew = state === SCHEDULED && queue !== '' && !asked.has(queue);
    if (isNew) asked.add(queue);
    const unpolled = isNew
      ? await waitOfQueue(queue, { workflowService, options: { namespace } })
      : null;
    if (unpolled !== null) return unpolled;
    if (slots && isNew) crowded ??= await crowdedQueue(queue, { workflowService, namespace });
    const waits = (heartbeatDetails?.payloads ?? []).map((one) =>
      waitIn(defaultPayloadConverter.fromPayload(one)),
    );
    const wait = waits.find((one) => one !== null);
    if (wait !== undefined) return wait;
  }
  return crowded;
}

/** That tasks of a queue wait, because all slots of its workers are taken; null: none waits, or nobody knows. */
async function crowdedQueue(
  name: string,
  { workflowService, namespace }: { workflowService: Client['workflowService']; namespace: string },
): Promise<Waiting | null> {
  const asking = backlogOf(workflowService, { namespace, name, type: 'activity' });
  const backlog = await asking.catch(() => null);
  return backlog === null || backlog === 0 ? null : takenSlots(name, backlog);
}

/** That nobody polls a queue of activities; null: somebody does. `ifUsed`: only while a task waits in it. */
export async function waitOfQueue(
  name: string,
  {
    workflowService,
    options: { namespace },
    ifUsed = false,
  }: {
    workflowService: Client['workflowService'];
    options: { namespace: string };
    ifUsed?: boolean;
  },
): Promise<Waiting | null> {
  const queue = { namespace, name, type: 'activity' } as const;
  if (mayBeAlive(await lastSign(workflowService, queue))) return null;
  const isUnused = ifUsed && (await backlogOf(workflowService, queue)) === 0;
  return isUnused ? null : unpolledQueue(name);
}
