import type { Client } from '@temporalio/client';
import { whyTaskFails } from '../../temporal/failing-task.js';
import { OPEN_IN_SEARCHES, onTaskQueue, whyPaused } from '../../temporal/workflow-status.js';
import type { Finding } from './finding.js';

/** Each costs a call. What keeps one from going on keeps most of them. */
const MOST_LOOKED_AT = 20;
/** Those that people start; a batch shows what its own children wait for. */
const TYPES = "('rolloutBatch', 'rolloutStream', 'policy', 'rollout')";

/** Open workflows of a task queue that cannot go on by themselves: paused, or their workflow task fails. */
export async function checkWorkflows(client: Client, taskQueue: string): Promise<Finding[]> {
  const found: Finding[] = [];
  const query = `${onTaskQueue(taskQueue)} AND WorkflowType IN ${TYPES} AND ${OPEN_IN_SEARCHES}`;
  let looked = 0;
  for await (const { workflowId, runId } of client.workflow.list({ query })) {
    if (looked++ === MOST_LOOKED_AT) break;
    const described = await client.workflow.getHandle(workflowId, runId).describe();
    const paused = whyPaused(described);
    const what = paused ?? (await whyTaskFails(client, described.raw));
    const state = paused === null ? 'broken' : 'limited';
    if (what !== null) found.push({ part: `workflow ${workflowId}`, state, what });
  }
  return found;
}
