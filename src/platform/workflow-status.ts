import { commonMs } from './waits/common-clock.js';

/** Every status, by the SDK's name, with which a workflow has ended; RUNNING and PAUSED are open. */
const ENDED: ReadonlySet<string> = new Set([
  'COMPLETED',
  'FAILED',
  'CANCELLED',
  'TERMINATED',
  'TIMED_OUT',
  'CONTINUED_AS_NEW',
]);

/** As the SDK describes a workflow. */
export interface HasStatus {
  status: { name: string };
}

/** Of a newer server's status nobody knows that it is an end. */
export const isOpen = ({ status }: HasStatus): boolean => !ENDED.has(status.name);

/** The same for searches: an older server refuses the name of a status that it does not know. */
export const OPEN_IN_SEARCHES = 'CloseTime IS NULL';

/** That a workflow is paused, and the command that ends it, for people; null: it is not. */
export function whyPaused({
  status,
  workflowId,
}: HasStatus & { workflowId: string }): string | null {
  return status.name === 'PAUSED' ? pausedText(workflowId) : null;
}

/** The same of one that is known to be. */
export const pausedText = (workflowId: string): string =>
  `${workflowId} is paused; temporal workflow unpause --workflow-id ${workflowId} ends the pause`;

/** When a workflow begins whose start was delayed, for people; null: it has begun, or has no delay. */
export function whyDelayed({ workflowId, executionTime }: Begins): string | null {
  if (executionTime === undefined || executionTime.getTime() <= commonMs()) return null;
  const time = executionTime.toISOString().slice(0, 19).replace('T', ' ');
  return `${workflowId} begins at ${time} UTC: its start is delayed`;
}

interface Begins {
  workflowId: string;
  executionTime?: Date;
}
