import type { Client } from '@temporalio/client';
import { commonMs } from '../platform/waits/common-clock.js';

/** Every status, by the SDK's name, with which a workflow has ended, in words; RUNNING and PAUSED are open. */
const ENDED = {
  COMPLETED: 'ended',
  FAILED: 'failed',
  CANCELLED: 'cancelled',
  TERMINATED: 'terminated',
  TIMED_OUT: 'timed out',
  CONTINUED_AS_NEW: 'continued',
} as const;
export type End = (typeof ENDED)[keyof typeof ENDED];

/** null: it is open. Of a newer server's status nobody knows that it is an end. */
export const endOf = (status: string): End | null =>
  Object.hasOwn(ENDED, status) ? ENDED[status as keyof typeof ENDED] : null;

/** As the SDK describes a workflow. */
export interface HasStatus {
  status: { name: string };
}

export const isOpen = ({ status }: HasStatus): boolean => endOf(status.name) === null;

/** Whether a workflow runs. One that is not on the server does not. */
export async function isRunning(
  { workflow }: Pick<Client, 'workflow'>,
  workflowId: string,
): Promise<boolean> {
  try {
    return isOpen(await workflow.getHandle(workflowId).describe());
  } catch (error) {
    if (error instanceof Error && error.name === 'WorkflowNotFoundError') return false;
    throw error;
  }
}

/** The same for searches: an older server refuses the name of a status that it does not know. */
export const OPEN_IN_SEARCHES = 'CloseTime IS NULL';

/** Likewise: of the workflows of one task queue. */
export const onTaskQueue = (name: string): string => `TaskQueue = '${name.replaceAll("'", "''")}'`;

export const isPaused = (status: string): boolean => status === 'PAUSED';

/** That a workflow is paused, and the command that ends it, for people; null: it is not. */
export function whyPaused({
  status,
  workflowId,
}: HasStatus & { workflowId: string }): string | null {
  return isPaused(status.name) ? pausedText(workflowId) : null;
}

/** The same of one that is known to be. */
export const pausedText = (workflowId: string): string =>
  `${workflowId} is paused; temporal workflow unpause --workflow-id ${workflowId} ends the pause`;

export interface Begins {
  workflowId: string;
  executionTime?: Date;
}

/** When a workflow begins whose start was delayed, for people; null: it has begun, or has no delay. */
export function whyDelayed({ workflowId, executionTime }: Begins): string | null {
  if (executionTime === undefined || executionTime.getTime() <= commonMs()) return null;
  const time = executionTime.toISOString().slice(0, 19).replace('T', ' ');
  return `${workflowId} begins at ${time} UTC: its start is delayed`;
}
