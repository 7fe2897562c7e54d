import { randomUUID } from 'node:crypto';
import { setTimeout as sleep } from 'node:timers/promises';
import type { WorkflowHandle } from '@temporalio/client';
import { WorkflowNotFoundError } from '@temporalio/client';
import { isOpen } from '../../src/temporal/workflow-status.js';
import type { TestServer } from './server.js';
import { resetTo } from './resets.js';
import { eventually } from './waiting.js';

/** What an engineer does with Temporal's own commands. */
export interface Operator {
  /** Resolves when it is and stays paused: this server forgets a pause during a workflow task (temporalio/temporal#10239). */
  pause: (workflowId: string) => Promise<void>;
  /**
   * This server loses a workflow task that nobody had taken when the pause began (temporalio/temporal#10980). What does
   * not go on is reset to its last task, or terminated if it had none, as the docs say.
   */
  unpause: (workflowId: string) => Promise<void>;
  reset: (workflowId: string, to: ResetPoint) => Promise<void>;
  terminate: (workflowId: string) => Promise<void>;
  /** Resolves when the server no longer has it. */
  remove: (workflowId: string) => Promise<void>;
  /** Resolves when it has ended. */
  cancel: (workflowId: string) => Promise<void>;
}

type HistoryEvent = NonNullable<
  Awaited<ReturnType<WorkflowHandle['fetchHistory']>>['events']
>[number];

/** The completed workflow task to which a reset goes; undefined: there is none. */
export type ResetPoint = (events: readonly HistoryEvent[]) => HistoryEvent | undefined;

/** Events have a field for each kind. */
const isOf =
  (kind: keyof HistoryEvent) =>
  (event: HistoryEvent): boolean =>
    Boolean(event[kind]);

const tasksIn = (events: readonly HistoryEvent[]): HistoryEvent[] =>
  events.filter(isOf('workflowTaskCompletedEventAttributes'));

/** The first one after an event of this kind. */
export const firstTaskAfter =
  (kind: keyof HistoryEvent): ResetPoint =>
  (events) =>
    tasksIn(events.slice(events.findIndex(isOf(kind))))[0];

/** From 0, the first one, to 1, the last one. */
export const taskAt =
  (share: number): ResetPoint =>
  (events) => {
    const tasks = tasksIn(events);
    return tasks[Math.round(share * (tasks.length - 1))];
  };

/** A workflow task takes less. */
const TASK_MS = 500;
const TAKEN_WITHIN_MS = 30_000;
/** temporal.api.enums.v1.PendingWorkflowTaskState, which none of the SDK's packages exports. */
const SCHEDULED = 1;

/** gRPC's code. */
const INTERNAL = 13;

function unlessInternal(error: unknown): void {
  if ((error as { code?: unknown }).code !== INTERNAL) throw error;
}

export function operatorOf({
  client,
  namespace,
}: Pick<TestServer, 'client' | 'namespace'>): Operator {
  const { workflow, workflowService } = client;
  const byHand = () => ({
    ...{ namespace, identity: 'an operator' },
    ...{ reason: 'by hand', requestId: randomUUID() },
  });
  const reset = async (workflowId: string, to: ResetPoint): Promise<void> => {
    // One that has just begun has no completed task yet.
    const task = await eventually(`a workflow task of ${workflowId}`, async () =>
      to((await workflow.getHandle(workflowId).fetchHistory()).events ?? []),
    );
    await resetTo({ client, namespace }, { workflowId, eventId: task.eventId! });
  };
  const statusOf = async (workflowId: string): Promise<string | null> => {
    try {
      return (await workflow.getHandle(workflowId).describe()).status.name;
    } catch (error) {
      if (error instanceof WorkflowNotFoundError) return null;
      throw error;
    }
  };
  /** When the workflow task was scheduled that no worker has taken; null: there is none. */
  const untaken = async (workflowId: string): Promise<string | null> => {
    const { pendingWorkflowTask: task } = (await workflow.getHandle(workflowId).describe()).raw;
    return Number(task?.state) === SCHEDULED ? String(task?.scheduledTime?.seconds) : null;
  };
  return {
    pause: async (workflowId) => {
      await eventually(`a pause of ${workflowId}`, async () => {
        const status = await statusOf(workflowId);
        // Its parent may not have started it yet.
        if (status === null) return false;
        if (status !== 'PAUSED')
          await workflowService
            .pauseWorkflowExecution({ ...byHand(), workflowId })
            // It has not begun yet (temporalio/temporal#10975).
            .catch(unlessInternal);
        await sleep(TASK_MS);
        return (await statusOf(workflowId)) === 'PAUSED';
      });
    },
    unpause: async (workflowId) => {
      await workflowService.unpauseWorkflowExecution({ ...byHand(), workflowId });
      const before = await untaken(workflowId);
      if (before === null) return;
      for (const end = performance.now() + TAKEN_WITHIN_MS; performance.now() < end;) {
        if ((await untaken(workflowId)) !== before) return;
        await sleep(TASK_MS);
      }
      const handle = workflow.getHandle(workflowId);
      const hasTask = taskAt(1)((await handle.fetchHistory()).events ?? []) !== undefined;
      if (hasTask) await reset(workflowId, taskAt(1));
      else await handle.terminate('its first task was lost');
    },
    reset,
    terminate: async (workflowId) => {
      await workflow.getHandle(workflowId).terminate('by hand');
    },
    remove: async (workflowId) => {
      await workflowService.deleteWorkflowExecution({
        namespace,
        workflowExecution: { workflowId },
      });
      const handle = workflow.getHandle(workflowId);
      await eventually(`${workflowId} to be gone`, () =>
        handle.describe().then(
          () => false,
          (error: unknown) => error instanceof WorkflowNotFoundError,
        ),
      );
    },
    cancel: async (workflowId) => {
      const handle = workflow.getHandle(workflowId);
      await handle.cancel();
      await eventually(`the end of ${workflowId}`, async () => !isOpen(await handle.describe()));
    },
  };
}
