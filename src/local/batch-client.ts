import { Client, Connection, WorkflowFailedError } from '@temporalio/client';
import type { BatchProgress, BatchResult } from '../activities/contract.js';
import { describeError } from '../model/faults.js';
import { LOOPBACK_CHANNEL } from './dev-server.js';
import type { Look } from './progress.js';

/** A batch on the local server. Calls fail while the server or the worker is away; the batch does not. */
export interface BatchHandle {
  look: () => Promise<Look>;
  /** Of a batch that has ended: its result, or why it has none. */
  outcome: () => Promise<{ result: BatchResult } | { failure: string }>;
}

export interface BatchClient {
  start: (batch: { batchId: string; taskQueue: string; request: unknown }) => Promise<BatchHandle>;
  /** Ids of batches that are still running. */
  unfinished: () => Promise<string[]>;
  close: () => Promise<void>;
}

/** Short, since the board asks again. */
const LOOK_MS = 2000;
const CALL_MS = 20_000;

export async function connectBatchClient(address: string, namespace: string): Promise<BatchClient> {
  const connection = await Connection.connect({ address, channelArgs: LOOPBACK_CHANNEL });
  const client = new Client({ connection, namespace });
  const within = <T>(ms: number, call: () => Promise<T>): Promise<T> =>
    connection.withDeadline(Date.now() + ms, call);

  const look = async (batchId: string): Promise<Look> => {
    const handle = client.workflow.getHandle(batchId);
    let closed = false;
    try {
      closed = (await within(LOOK_MS, () => handle.describe())).status.name !== 'RUNNING';
    } catch {
      return { closed, progress: null, trouble: `waiting for the Temporal server at ${address}` };
    }
    try {
      return {
        closed,
        progress: await within(LOOK_MS, () => handle.query<BatchProgress>('progress')),
        trouble: null,
      };
    } catch {
      return { closed, progress: null, trouble: 'waiting for the worker' };
    }
  };

  const outcome = async (
    batchId: string,
  ): Promise<{ result: BatchResult } | { failure: string }> => {
    try {
      const handle = client.workflow.getHandle(batchId);
      return { result: (await within(CALL_MS, () => handle.result())) as BatchResult };
    } catch (error) {
      if (error instanceof WorkflowFailedError)
        return { failure: describeError(error.cause ?? error) };
      throw error;
    }
  };

  return {
    start: async ({ batchId, taskQueue, request }) => {
      await within(CALL_MS, () =>
        client.workflow.start('rolloutBatch', { workflowId: batchId, taskQueue, args: [request] }),
      );
      return { look: () => look(batchId), outcome: () => outcome(batchId) };
    },
    unfinished: async () => {
      const ids: string[] = [];
      await within(CALL_MS, async () => {
        const query = "WorkflowType = 'rolloutBatch' AND ExecutionStatus = 'Running'";
        for await (const { workflowId } of client.workflow.list({ query })) ids.push(workflowId);
      });
      return ids;
    },
    close: () => connection.close(),
  };
}
