import type { Client, WorkflowExecutionDescription } from '@temporalio/client';
import type { Begins, HasStatus } from './workflow-status.js';
import { whyDelayed, whyPaused } from './workflow-status.js';

/** A workflow whose task fails again and again shows nothing by itself: no signal, query or cancellation reaches it. */

/** Fewer may be a worker that died or was too slow. */
const LEAST_ATTEMPTS = 3;
/** The last failure is among so many events, and the server keeps only the first of a row of failures. */
const LAST_EVENTS = 10;
const MOST_OF_REASON = 300;

/** The part of a description that says how often the task was tried. */
type Described = Pick<
  WorkflowExecutionDescription['raw'],
  'pendingWorkflowTask' | 'workflowExecutionInfo'
>;
type Asking = Pick<Client, 'workflowService' | 'options'>;
type History = Awaited<
  ReturnType<Client['workflowService']['getWorkflowExecutionHistoryReverse']>
>['history'];
type Events = NonNullable<NonNullable<History>['events']>;

/** How often the workflow task has been tried; null: not so often that it fails. */
export function failingTask({ pendingWorkflowTask }: Described): number | null {
  const { attempt } = pendingWorkflowTask ?? {};
  return (attempt ?? 0) >= LEAST_ATTEMPTS ? (attempt ?? 0) : null;
}

/** Why an open workflow does not go on by itself, and the next step, for people; null: it does. */
export const whyItStands = async (
  client: Asking,
  described: HasStatus & Begins & { raw: Described },
): Promise<string | null> =>
  whyPaused(described) ?? whyDelayed(described) ?? (await whyTaskFails(client, described.raw));

/** That its task fails or was lost, why, and the next step, for people; null: neither. */
export async function whyTaskFails(
  { workflowService, options: { namespace } }: Asking,
  described: Described,
): Promise<string | null> {
  const attempts = failingTask(described);
  const execution = described.workflowExecutionInfo?.execution;
  const isUntaken = Number(described.pendingWorkflowTask?.state) === SCHEDULED;
  if ((attempts === null && !isUntaken) || !execution) return null;
  const question = { namespace, execution, maximumPageSize: LAST_EVENTS };
  const { history } = await workflowService.getWorkflowExecutionHistoryReverse(question);
  const events = history?.events ?? [];
  const id = execution.workflowId ?? '';
  if (attempts === null) return wasLost(events) ? lostText(id, events) : null;
  const why = reasonIn(events).slice(0, MOST_OF_REASON);
  const next =
    why === LATE
      ? 'The worker hangs, or has too little CPU: temporal-rollout check names it. Another worker continues the workflow'
      : 'A repaired worker continues it. Or end it (temporal workflow terminate) and start its id again, which continues from the store';
  return `the workflow task of ${id} fails (${attempts} tries): ${why}. ${next}`;
}

const LATE = 'no worker completes it in time';

/** temporal.api.enums.v1.PendingWorkflowTaskState, which none of the SDK's packages exports by name. */
const SCHEDULED = 1;

/**
 * A pause takes back the workflow task that no worker had taken, and some servers schedule no other when it ends
 * (temporalio/temporal#10980). The newest event is the first.
 */
function wasLost(events: Events): boolean {
  const unpaused = events.findIndex((event) => event.workflowExecutionUnpausedEventAttributes);
  const task = events.findIndex(
    (event) =>
      event.workflowTaskScheduledEventAttributes ?? event.workflowTaskStartedEventAttributes,
  );
  return unpaused !== -1 && task > unpaused;
}

/** A workflow without a completed task cannot be reset. */
function lostText(id: string, events: Events): string {
  const isFirst =
    events.some((event) => event.workflowExecutionStartedEventAttributes) &&
    !events.some((event) => event.workflowTaskCompletedEventAttributes);
  const way = isFirst
    ? `temporal workflow terminate --workflow-id ${id} ends it, and its id started again continues from the store`
    : `temporal workflow reset --workflow-id ${id} --type LastWorkflowTask --reason pause continues it`;
  return `the workflow task of ${id} was lost in a pause; ${way}`;
}

/** The newest event is the first. */
function reasonIn(events: Events): string {
  for (const {
    workflowTaskFailedEventAttributes: failed,
    workflowTaskTimedOutEventAttributes: late,
  } of events) {
    const message = failed?.failure?.message ?? '';
    if (message !== '') return message;
    if (late) return LATE;
  }
  return 'its history does not say why';
}
