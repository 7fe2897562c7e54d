import { setTimeout as sleep } from 'node:timers/promises';
import type { WorkflowExecutionDescription } from '@temporalio/client';
import { ApplicationFailure, WorkflowFailedError, WorkflowNotFoundError } from '@temporalio/client';
import type { BatchProgress, BatchResult } from '../activities/contract.js';
import { describeError } from '../platform/errors.js';
import { OtherDeployment } from '../activities/contract/one-deployment.js';
import { whyItStands } from '../temporal/failing-task.js';
import { OPEN_IN_SEARCHES, isOpen } from '../temporal/workflow-status.js';
import type { Seen, Server, ServerAddress } from './server.js';
import {
  CALL_MS,
  lastSeen,
  connectServer,
  onQueue,
  queuedFor,
  openServer,
  openServerToLook,
  silenceAt,
  silenceOf,
  stopped,
  updated,
} from './server.js';
import type { BatchStart, Started } from './start-batch.js';
import { completedRun, startOrJoin } from './start-batch.js';

/** What a look has found so far. */
export interface Found {
  /** When the batch began, in milliseconds since 1970; absent: the server has not answered. */
  begun_ms?: number;
  seen?: Seen;
}

export interface Look extends Pick<Found, 'begun_ms'> {
  /** The workflow has ended, in any way. */
  closed: boolean;
  /** null: no answer this time. */
  progress: BatchProgress | null;
  /** Why there was no answer, if that is known. */
  trouble: string | null;
  /** Tasks of all batches and streams that wait for slots of workers; absent: the server has not said. */
  queued?: number;
}

/** A batch on a Temporal server. Calls fail while the server or the worker is unavailable, but the batch does not. */
export interface BatchHandle {
  /** Tells meanwhile what it has found, where the rest takes long. */
  look: (tell?: (found: Found) => void) => Promise<Look>;
  outcome: () => Promise<Outcome>;
}

/**
 * `refused`: why its newest start was refused; the result is older. `is_refusal`: that is why it has none. `forgotten`:
 * Temporal has lost the batch.
 */
export type Outcome =
  | { result: BatchResult; refused?: string }
  | { failure: string; is_refusal?: true; forgotten?: true };

export interface StartedBatch extends BatchHandle {
  started: Started;
}

export type BatchClient = ReturnType<typeof batchClient>;

/** Whether an id is that of another deployment in the namespace. */
export const isOtherDeployment = (error: unknown): boolean => error instanceof OtherDeployment;

const BRIEF_MS = 2000;
/** Its rollouts close their requests, and its rows are written. */
const CANCEL_MS = 5 * 60_000;

/** Rejects if the server does not answer. */
export const connectBatchClient = async (server: ServerAddress): Promise<BatchClient> =>
  batchClient(await connectServer(server), openServerToLook(server));

/** For callers that wait for a server: calls fail while it does not answer. */
export const openBatchClient = (server: ServerAddress): BatchClient =>
  batchClient(openServer(server), openServerToLook(server));

function batchClient(server: Server, looks: Server) {
  const handleOf = (batchId: string) => server.client.workflow.getHandle(batchId);
  const lookAt =
    (batchId: string): BatchHandle['look'] =>
    (tell = () => undefined) =>
      look(batchId, { server: looks, tell });
  return {
    /** Starts, continues or joins it, as `startOrJoin` does; rejects if the id names another request. */
    start: async (batch: BatchStart): Promise<StartedBatch> => ({
      started: await startOrJoin(server, batch),
      look: lookAt(batch.batchId),
      // An earlier result is none of this start.
      outcome: () => outcome(batch, server),
    }),
    attach: (batchId: string): BatchHandle => ({
      look: lookAt(batchId),
      outcome: () => outcomeOrEarlier(batchId, server),
    }),
    /** null: Temporal has no such batch, or no longer. */
    status: async (batchId: string): Promise<'running' | 'ended' | null> => {
      const described = await describedAs(batchId, { server, ms: CALL_MS });
      return described && (isOpen(described) ? 'running' : 'ended');
    },
    /** The type of the workflow that has this id; null: Temporal has none, or no longer. */
    typeOf: async (id: string): Promise<string | null> =>
      (await describedAs(id, { server: looks, ms: BRIEF_MS }))?.type ?? null,
    /** Ends a batch, or one rollout, and keeps its results. Returns why it does not end yet; null: it ends. */
    stop: (batchId: string): Promise<string | null> =>
      stopped(server, handleOf(batchId)).catch((error: unknown) => {
        if (!(error instanceof WorkflowNotFoundError)) throw error;
        throw new Error(`${batchId} does not run on this server`);
      }),
    /** Cancels a running batch with its rollouts; resolves when it has ended. */
    cancel: async (batchId: string): Promise<void> => {
      const handle = handleOf(batchId);
      await server.within(CALL_MS, () => handle.cancel());
      await server
        .within(CANCEL_MS, () => handle.result())
        .catch((error: unknown) => {
          if (!(error instanceof WorkflowFailedError)) throw error;
        });
    },
    setMaxInFlight: async (batchId: string, max_in_flight: number): Promise<void> => {
      const args: [object] = [{ max_in_flight }];
      const ask = () =>
        handleOf(batchId).startUpdate('set_max_in_flight', { args, waitForStage: 'ACCEPTED' });
      await updated(server, { workflowId: batchId, start: () => server.within(CALL_MS, ask) });
    },
    unfinished: async (): Promise<string[]> => {
      const ids: string[] = [];
      await server.within(CALL_MS, async () => {
        const query = `WorkflowType = 'rolloutBatch' AND ${OPEN_IN_SEARCHES}${onQueue(server.taskQueue)}`;
        for await (const { workflowId } of server.client.workflow.list({ query }))
          ids.push(workflowId);
      });
      return ids;
    },
    close: async (): Promise<void> => {
      await looks.close();
      await server.close();
    },
  };
}

type Tell = (found: Found) => void;

async function look(
  batchId: string,
  { server, tell }: { server: Server; tell: Tell },
): Promise<Look> {
  try {
    const handle = server.client.workflow.getHandle(batchId);
    const described = await server.within(CALL_MS, () => handle.describe());
    const { taskQueue, startTime, executionTime = startTime } = described;
    const begun_ms = executionTime.getTime();
    tell({ begun_ms });
    const closed = !isOpen(described);
    // Whose task fails answers no query either.
    const trouble = await server.within(CALL_MS, () => whyItStands(server.client, described));
    if (trouble !== null) return { closed, begun_ms, progress: null, trouble };
    const answer = await progressOf(server, { batchId, taskQueue, closed, tell });
    const isWaited = !closed && answer.progress !== null;
    return { closed, begun_ms, ...answer, ...(isWaited && (await queuedFor(server, taskQueue))) };
  } catch (error) {
    if (isOtherDeployment(error)) throw error;
    if (error instanceof WorkflowNotFoundError)
      return { closed: true, progress: null, trouble: forgotten(batchId) };
    const trouble = await silenceAt(server, { error, workflowId: batchId });
    return { closed: false, progress: null, trouble };
  }
}

interface Questioned {
  batchId: string;
  taskQueue: string;
  closed: boolean;
  tell: Tell;
}

type Answer = Pick<Look, 'progress' | 'trouble'>;

/** A slow answer is waited for, unless nobody can give it. */
async function progressOf(server: Server, questioned: Questioned): Promise<Answer> {
  const left = new AbortController();
  const asking = askProgress(server, { ...questioned, signal: left.signal });
  for (;;) {
    const brief = sleep(BRIEF_MS, null, { ref: false });
    const answer = await Promise.race([asking, brief]);
    if (answer !== null) return answer;
    const trouble = await troubleOf(server, questioned);
    if (trouble === null) continue;
    // The server queues few queries of a workflow.
    left.abort();
    return { progress: null, trouble };
  }
}

async function askProgress(
  server: Server,
  { signal, ...questioned }: Questioned & { signal: AbortSignal },
): Promise<Answer> {
  const { client, within, address } = server;
  const { batchId: workflowId, taskQueue, closed } = questioned;
  const query = () => client.workflow.getHandle(workflowId).query<BatchProgress>('progress');
  try {
    const asking = () => within(closed ? BRIEF_MS : CALL_MS, query);
    return { progress: await client.withAbortSignal(signal, asking), trouble: null };
  } catch (error) {
    const trouble = silenceOf(error, { address, workflowId, taskQueue });
    if (trouble !== null || closed || signal.aborted) return { progress: null, trouble };
    return { progress: null, trouble: await troubleOf(server, questioned) };
  }
}

/** Only what is certain is trouble. */
async function troubleOf(
  server: Server,
  { batchId: workflowId, taskQueue, tell }: Questioned,
): Promise<string | null> {
  const seen = await lastSeen(server, { workflowId, taskQueue });
  if (seen === null || typeof seen === 'string') return seen;
  tell({ seen });
  return null;
}

async function outcome(
  { batchId, runId }: { batchId: string; runId?: string },
  { client, within }: Server,
): Promise<Outcome> {
  try {
    const handle = client.workflow.getHandle(batchId, runId);
    await within(CALL_MS, () => handle.describe());
    return { result: (await within(CALL_MS, () => handle.result())) as BatchResult };
  } catch (error) {
    if (error instanceof WorkflowFailedError) {
      const { cause } = error;
      const isRefusal = cause instanceof ApplicationFailure && cause.type === 'InvalidBatchRequest';
      const failure = describeError(cause ?? error);
      return { failure, ...(isRefusal && { is_refusal: true }) };
    }
    if (error instanceof WorkflowNotFoundError)
      return { failure: forgotten(batchId), forgotten: true };
    throw error;
  }
}

/** A refused start changes nothing of the batch, whose result is that of the run before it. */
async function outcomeOrEarlier(batchId: string, server: Server): Promise<Outcome> {
  const newest = await outcome({ batchId }, server);
  if ('result' in newest || newest.is_refusal !== true) return newest;
  const run = await completedRun(server, batchId);
  const earlier = run && (await outcome({ batchId, runId: run.runId }, server));
  return earlier !== null && 'result' in earlier ? { ...earlier, refused: newest.failure } : newest;
}

/** Its database was lost, or its retention has passed. */
const forgotten = (batchId: string): string => `Temporal no longer knows batch ${batchId}`;

/** null: Temporal has none, or no longer. */
export const describedAs = (
  id: string,
  { server: { client, within }, ms }: { server: Server; ms: number },
): Promise<WorkflowExecutionDescription | null> =>
  within(ms, () => client.workflow.getHandle(id).describe()).catch((error: unknown) => {
    if (error instanceof WorkflowNotFoundError) return null;
    throw error;
  });

/** The server may die at this moment, too: asks until it answers; null if the user interrupts first. */
export async function awaitOutcome(
  batch: Pick<BatchHandle, 'outcome'>,
  { say, signal }: { say: (line: string) => void; signal: AbortSignal },
): Promise<Outcome | null> {
  while (!signal.aborted) {
    try {
      return await batch.outcome();
    } catch (error) {
      say(`the result cannot be read yet: ${describeError(error)}`);
      await sleep(1000, undefined, { signal }).catch(() => undefined);
    }
  }
  return null;
}
