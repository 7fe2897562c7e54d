import {
  WorkflowExecutionAlreadyStartedError,
  type WorkflowExecutionDescription,
  type WorkflowExecutionInfo,
} from '@temporalio/client';
import type { BatchOptions, BatchResult, Counts } from '../activities/contract.js';
import { BATCH_ID } from '../model/workflow-safe/rollout-id.js';
import { OtherDeployment } from '../activities/contract/one-deployment.js';
import { differenceBetween } from '../model/request-difference.js';
import type { Server } from './server.js';
import { CALL_MS, checkSize, onQueue } from './server.js';

export interface BatchStart {
  batchId: string;
  taskQueue: string;
  request: unknown;
  /** The rollouts of an ended batch are removed, and played again. */
  restart?: boolean;
}

export type Started =
  | { how: 'started' | 'joined' | 'restarted' }
  /** `there`: what its last result counts; the store may have lost them since. null: only the store knows. */
  | { how: 'continued'; there: Pick<Counts, 'completed' | 'requested'> | null };

type Run = Pick<WorkflowExecutionInfo, 'workflowId' | 'runId'>;

const TYPE = 'rolloutBatch';

/**
 * Starts a batch, continues one that has ended, or joins the one of this id that runs with the same request; returns
 * which. An id names one request
 * permanently: throws an error that names the first field in which another one differs. Worker and store check it, too,
 * but that refusal would be the newest run of the id, and hide the result of the run before it.
 */
export async function startOrJoin(server: Server, start: BatchStart): Promise<Started> {
  const { batchId, taskQueue, request, restart = false } = start;
  checkSize(`the request of batch ${batchId} (write its samples to a file)`, request);
  const newest = await newestRun(server, batchId);
  // A search finds a run only a moment after it has ended.
  const hasResult = newest?.status.name === 'COMPLETED' && newest.type === TYPE;
  const earlier = hasResult ? newest : await completedRun(server, batchId);
  if (earlier !== null) await checkSame(server, { ...start, runId: earlier.runId });
  const isKnown = earlier !== null || newest !== null;
  const again: BatchOptions[] = restart ? [{ restart }] : [];
  const options = { workflowId: batchId, taskQueue, args: [request, ...again] };
  try {
    await server.within(CALL_MS, () => server.client.workflow.start(TYPE, options));
  } catch (error) {
    if (!(error instanceof WorkflowExecutionAlreadyStartedError)) throw error;
    if (restart)
      throw new Error(
        `batch ${batchId} runs: restart plays a batch again that has ended; stop this one first`,
      );
    // It may have been started since.
    await newestRun(server, batchId);
    await checkSame(server, start);
    return { how: 'joined' };
  }
  if (!isKnown) return { how: 'started' };
  if (restart) return { how: 'restarted' };
  return { how: 'continued', there: earlier && (await countsOf(server, earlier)) };
}

/** null: its result cannot be read; the batch has started all the same. */
const countsOf = ({ client, within }: Server, { workflowId, runId }: Run): Promise<Counts | null> =>
  within(CALL_MS, () => client.workflow.getHandle(workflowId, runId).result()).then(
    (result) => (result as BatchResult).counts,
    () => null,
  );

/** null: Temporal does not know the id; it may have forgotten one that the store still has. */
const newestRun = (
  { client, within }: Server,
  batchId: string,
): Promise<WorkflowExecutionDescription | null> =>
  within(CALL_MS, () => client.workflow.getHandle(batchId).describe()).catch((error: unknown) => {
    if (error instanceof OtherDeployment) throw error;
    return null;
  });

/** The newest run with a result; null: Temporal has none, or cannot search, and only the store knows the batch. */
export async function completedRun(
  { client, within, taskQueue }: Server,
  batchId: string,
): Promise<Run | null> {
  if (!BATCH_ID.test(batchId)) return null;
  const query = `WorkflowId = '${batchId}' AND WorkflowType = '${TYPE}' AND ExecutionStatus = 'Completed'${onQueue(taskQueue)}`;
  const runs: WorkflowExecutionInfo[] = [];
  await within(CALL_MS, async () => {
    for await (const run of client.workflow.list({ query })) runs.push(run);
  }).catch(() => undefined);
  runs.sort((a, b) => b.startTime.getTime() - a.startTime.getTime());
  return runs[0] ?? null;
}

/** `runId`: of an ended run; else the running one is meant. */
async function checkSame(
  { client, within }: Server,
  { batchId, request, runId }: BatchStart & { runId?: string },
): Promise<void> {
  const { namespace, loadedDataConverter } = client.options;
  const execution = { workflowId: batchId, ...(runId !== undefined && { runId }) };
  const { history } = await within(CALL_MS, () =>
    client.workflowService.getWorkflowExecutionHistory({
      namespace,
      execution,
      maximumPageSize: 1,
    }),
  );
  const started = history?.events?.[0]?.workflowExecutionStartedEventAttributes;
  const type = started?.workflowType?.name;
  if (type !== TYPE)
    throw new Error(`${batchId} is a workflow of type ${type ?? 'unknown'}: use another id`);
  const [payload] = started?.input?.payloads ?? [];
  // By Temporal's own converter, ids that differ beyond 2^53 would be the same number.
  const theirs = payload && loadedDataConverter.payloadConverter.fromPayload<unknown>(payload);
  const difference = differenceBetween(theirs, request);
  if (difference === null) return;
  const names = runId === undefined ? 'runs with' : 'has';
  throw new Error(`batch ${batchId} ${names} another request: ${difference}; use another id`);
}
