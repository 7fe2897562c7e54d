import type { Client } from '@temporalio/client';
import type { Logger } from 'pino';
import type { Described } from '../temporal/failing-task.js';
import { failingTask, whyTaskFails } from '../temporal/failing-task.js';
import { commonMs } from '../platform/waits/common-clock.js';
import { onTaskQueue } from '../temporal/workflow-status.js';
import { keepLooking } from './keep-looking.js';
import type { KnownAttributes } from './search-attributes.js';

/** What a workflow waits for whose task fails: a repaired worker, which may take a while to deploy. */
const PATIENCE_MS = 60 * 60_000;
const LOOK_MS = 60_000;
const MOST_AT_ONCE = 20;

/** Set by the server while a workflow's task fails again and again. An older server does not know it. */
const queryOf = (task_queue: string): string =>
  `ExecutionStatus = 'Running' AND ${onTaskQueue(task_queue)} AND WorkflowType IN ('rollout', 'rolloutSlice') AND TemporalReportedProblems IS NOT NULL`;

export interface StuckWorkflows {
  list: () => AsyncIterable<{ workflowId: string; runId: string }>;
  describe: (workflow: { workflowId: string; runId: string }) => Promise<DescribedTask>;
  why: (described: DescribedTask) => Promise<string | null>;
  terminate: (workflow: { workflowId: string; runId: string }, reason: string) => Promise<void>;
}

export interface DescribedTask extends Described {
  pendingWorkflowTask?: {
    attempt?: number | null;
    originalScheduledTime?: { seconds?: unknown } | null;
  } | null;
}

export function reachStuck(client: Client, task_queue: string): StuckWorkflows {
  const { workflow } = client;
  return {
    list: () => workflow.list({ query: queryOf(task_queue) }),
    describe: async ({ workflowId, runId }) =>
      (await workflow.getHandle(workflowId, runId).describe()).raw,
    why: (described) => whyTaskFails(client, described),
    terminate: async ({ workflowId, runId }, reason) => {
      await workflow.getHandle(workflowId, runId).terminate(reason);
    },
  };
}

/**
 * A batch waits for its rollouts, and one whose workflow task fails hears of no deadline, stop or cancellation. The log
 * says so at once. After an hour the rollout is terminated, so that its batch ends: its journal stays, and starting the
 * batch again continues it. One that somebody started by hand is left to them.
 */
export async function endStuck(
  workflows: StuckWorkflows,
  {
    log,
    attributes,
    now_ms,
  }: { log: Pick<Logger, 'error'>; attributes: Pick<KnownAttributes, 'look'>; now_ms: number },
): Promise<void> {
  let seen = 0;
  for await (const one of workflows.list()) {
    if (!one.workflowId.includes('/')) continue;
    if (++seen > MOST_AT_ONCE) return;
    const described = await workflows.describe(one);
    const why = await workflows.why(described);
    if (failingTask(described) === null || why === null) continue;
    const { seconds } = described.pendingWorkflowTask?.originalScheduledTime ?? {};
    const failing_ms = now_ms - Number(seconds ?? now_ms / 1000) * 1000;
    log.error({ workflow_id: one.workflowId }, why);
    // Somebody has removed one.
    if (/search attribute/i.test(why)) await attributes.look();
    if (failing_ms >= PATIENCE_MS) await workflows.terminate(one, why);
  }
}

export const keepUnstuck = (
  workflows: StuckWorkflows,
  { log, attributes }: { log: Logger; attributes: KnownAttributes },
): (() => void) =>
  keepLooking(() => endStuck(workflows, { log, attributes, now_ms: commonMs() }), {
    every_ms: LOOK_MS,
    failed: (why) => {
      log.debug(`cannot find workflows with failing tasks: ${why}`);
    },
  });
