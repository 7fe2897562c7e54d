import type { Client } from '@temporalio/client';
import type { Logger } from 'pino';
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
export const stuckOn = (task_queue: string): string =>
  `ExecutionStatus = 'Running' AND ${onTaskQueue(task_queue)} AND WorkflowType IN ('rollout', 'rolloutSlice') AND TemporalReportedProblems IS NOT NULL`;

interface Looking<L> {
  task_queue: string;
  log: L;
  attributes: Pick<KnownAttributes, 'look'>;
}

/**
 * A batch waits for its rollouts, and one whose workflow task fails hears of no deadline, stop or cancellation. The log
 * says so at once. After an hour the rollout is terminated, so that its batch ends: its journal stays, and starting the
 * batch again continues it. One that somebody started by hand is left to them.
 */
export async function endStuck(
  client: Client,
  { task_queue, log, attributes, now_ms }: Looking<Pick<Logger, 'error'>> & { now_ms: number },
): Promise<void> {
  let seen = 0;
  for await (const found of client.workflow.list({ query: stuckOn(task_queue) })) {
    const { workflowId: workflow_id, runId } = found;
    if (!workflow_id.includes('/')) continue;
    if (++seen > MOST_AT_ONCE) return;
    const handle = client.workflow.getHandle(workflow_id, runId);
    const { raw } = await handle.describe();
    const why = await whyTaskFails(client, raw);
    if (failingTask(raw) === null || why === null) continue;
    const { seconds } = raw.pendingWorkflowTask?.originalScheduledTime ?? {};
    const failing_ms = now_ms - Number(seconds ?? now_ms / 1000) * 1000;
    log.error({ workflow_id }, why);
    // An attribute was removed.
    if (/search attribute/i.test(why)) await attributes.look();
    if (failing_ms >= PATIENCE_MS) await handle.terminate(why);
  }
}

export const keepUnstuck = (client: Client, looking: Looking<Logger>): (() => void) =>
  keepLooking(() => endStuck(client, { ...looking, now_ms: commonMs() }), {
    every_ms: LOOK_MS,
    failed: (why) => {
      looking.log.debug(`cannot find workflows with failing tasks: ${why}`);
    },
  });
