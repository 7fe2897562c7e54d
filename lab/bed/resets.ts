import { randomUUID } from 'node:crypto';
import type { TestServer } from './server.js';

type ResetRequest = Parameters<
  TestServer['client']['workflowService']['resetWorkflowExecution']
>[0];
type EventId = NonNullable<ResetRequest['workflowTaskFinishEventId']>;

/** temporal.api.enums.v1.ResetReapplyExcludeType: signals and updates. */
const NOT_AGAIN = [1, 2];

export interface Reset {
  workflowId: string;
  /** Absent: the latest run. */
  runId?: string;
  /** The event of a workflow task that was completed. */
  eventId: EventId;
  /** Whether the new run gets the signals and updates again that came after it. */
  reapplies?: boolean;
}

/** As `temporal workflow reset`; returns the new run. */
export async function resetTo(
  { client, namespace }: Pick<TestServer, 'client' | 'namespace'>,
  { workflowId, runId, eventId, reapplies = true }: Reset,
): Promise<string> {
  const answer = await client.workflowService.resetWorkflowExecution({
    namespace,
    workflowExecution: { workflowId, ...(runId !== undefined && { runId }) },
    reason: 'by hand',
    requestId: randomUUID(),
    workflowTaskFinishEventId: eventId,
    resetReapplyExcludeTypes: reapplies ? [] : NOT_AGAIN,
  });
  return answer.runId;
}

/** The workflow tasks that were completed from the first event of a kind on, and their run, the latest. */
export async function tasksOf(
  { client }: Pick<TestServer, 'client'>,
  { workflowId, from = () => true }: { workflowId: string; from?: (event: object) => boolean },
): Promise<{ runId: string; tasks: EventId[] }> {
  const handle = client.workflow.getHandle(workflowId);
  const { runId } = await handle.describe();
  const { events } = await client.workflow.getHandle(workflowId, runId).fetchHistory();
  const all = events ?? [];
  const tasks = all
    .slice(all.findIndex(from))
    .flatMap(({ eventId, workflowTaskCompletedEventAttributes: at }) =>
      at && eventId ? [eventId] : [],
    );
  return { runId, tasks };
}
