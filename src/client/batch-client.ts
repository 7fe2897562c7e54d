import { setTimeout as sleep } from 'node:timers/promises';
import { ApplicationFailure, WorkflowFailedError, WorkflowNotFoundError } from '@temporalio/client';
import type { BatchProgress, BatchResult } from '../activities/contract.js';
import { describeError } from '../platform/errors.js';
import { OtherDeployment } from '../activities/contract/one-deployment.js';
import { whyItStands } from '../temporal/failing-task.js';
import { OPEN_IN_SEARCHES, isOpen, whyPaused } from '../temporal/workflow-status.js';
import type { Found, Look } from './progress.js';
import type { Server, ServerAddress } from './server.js';
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
  updated,
} from './server.js';
import type { BatchStart, Started } from './start-batch.js';
import { completedRun, startOrJoin } from './start-batch.js';

/** A batch on a Temporal server. Calls fail while the server or the worker is unavailable, but the batch does not. */
export interface BatchHandle {
  /** Tells meanwhile what it has found, where the rest takes long. */
  look: (tell?: (found: Found) => void) => Promise<Look>;
  /** The outcome of an ended batch. */
  outcome: () => Promise<Outcome>;
}

/**
 * The result of an ended batch, or why it has none. `refused`: why its newest start was refused; the result is older.
 * `forgotten`: Temporal has lost the batch.
 */
export type Outcome =
  { result: BatchResult; refused?: string } | { failure: string; forgotten?: true };

export interface StartedBatch extends BatchHandle {
  started: Started;
}

export interface BatchClient {
  /** Starts it, continues it if it has ended, or joins it if it runs with this request; rejects if the id names another request. */
  start: (batch: BatchStart) => Promise<StartedBatch>;
  /** A batch that was started before. */
  attach: (batchId: string) => BatchHandle;
  /** null: Temporal has no such batch, or no longer. */
  status: (batchId: string) => Promise<'running' | 'ended' | null>;
  /** The type of the workflow that has this id; null: Temporal has none, or no longer. */
  typeOf: (id: string) => Promise<string | null>;
  /** Ends a running batch and keeps its results so far. Returns why it does not end yet; null: it ends. Rejects if none runs. */
  stop: (batchId: string) => Promise<string | null>;
  /** Cancels a running batch with its rollouts; resolves when it has ended. */
  cancel: (batchId: string) => Promise<void>;
  /** Changes how many rollouts of a running batch run at once. */
  setMaxInFlight: (batchId: string, max_in_flight: number) => Promise<void>;
  /** Ids of batches that are still running. */
  unfinished: () => Promise<string[]>;
  close: () => Promise<void>;
}

/** Whether an id is that of another deployment in the namespace. */
export const isOtherDeployment = (error: unknown): boolean => error instanceof OtherDeployment;

/** For answers that are not needed if they take longer. */
const BRIEF_MS = 2000;
/** Its rollouts close their requests, and its rows are written. */
const CANCEL_MS = 5 * 60_000;

/** Rejects if the server does not answer. */
export const connectBatchClient = async (server: ServerAddress): Promise<BatchClient> =>
  batchClient(await connectServer(server), openServerToLook(server));

/** For callers that wait for a server: calls fail while it does not answer. */
export const openBatchClient = (server: ServerAddress): BatchClient =>
  batchClient(openServer(server), openServerToLook(server));

const batchClient = (server: Server, looks: Server): BatchClient => ({
  ...handles(server, looks),
  ...steering(server),
  typeOf: (id) => typeOf(id, looks),
  unfinished: async () => {
    const ids: string[] = [];
    await server.within(CALL_MS, async () => {
      const query = `WorkflowType = 'rolloutBatch' AND ${OPEN_IN_SEARCHES}${onQueue(server.taskQueue)}`;
      for await (const { workflowId } of server.client.workflow.list({ query }))
        ids.push(workflowId);
    });
    return ids;
  },
  close: async () => {
    await looks.close();
    await server.close();
  },
});

function handles(server: Server, looks: Server): Pick<BatchClient, 'start' | 'attach'> {
  const lookAt =
    (batchId: string): BatchHandle['look'] =>
    (tell = () => undefined) =>
      look(batchId, { server: looks, tell });
  return {
    attach: (batchId) => ({
      look: lookAt(batchId),
      outcome: () => outcomeOrEarlier(batchId, server),
    }),
    start: async (batch) => {
      const started = await startOrJoin(server, batch);
      return {
        started,
        look: lookAt(batch.batchId),
        // An earlier result is none of this start.
        outcome: async () => shownOutcome(await outcome(batch, server)),
      };
    },
  };
}

async function look(
  batchId: string,
  { server, tell }: { server: Server; tell: (found: Found) => void },
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
  tell: (found: Found) => void;
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

type RunOutcome = { result: BatchResult } | Refusable;

interface Refusable {
  failure: string;
  is_refusal: boolean;
  forgotten?: true;
}

async function outcome(
  { batchId, runId }: { batchId: string; runId?: string },
  { client, within }: Server,
): Promise<RunOutcome> {
  try {
    const handle = client.workflow.getHandle(batchId, runId);
    await within(CALL_MS, () => handle.describe());
    return { result: (await within(CALL_MS, () => handle.result())) as BatchResult };
  } catch (error) {
    if (error instanceof WorkflowFailedError) {
      const { cause } = error;
      const is_refusal =
        cause instanceof ApplicationFailure && cause.type === 'InvalidBatchRequest';
      return { failure: describeError(cause ?? error), is_refusal };
    }
    if (error instanceof WorkflowNotFoundError)
      return { failure: forgotten(batchId), is_refusal: false, forgotten: true };
    throw error;
  }
}

function shownOutcome(of: RunOutcome): Outcome {
  if ('result' in of) return of;
  const { failure, forgotten } = of;
  return { failure, ...(forgotten !== undefined && { forgotten }) };
}

/** A refused start changes nothing of the batch, whose result is that of the run before it. */
async function outcomeOrEarlier(batchId: string, server: Server): Promise<Outcome> {
  const newest = await outcome({ batchId }, server);
  if ('result' in newest || !newest.is_refusal) return shownOutcome(newest);
  const run = await completedRun(server, batchId);
  const earlier = run && (await outcome({ batchId, runId: run.runId }, server));
  return earlier !== null && 'result' in earlier
    ? { ...earlier, refused: newest.failure }
    : shownOutcome(newest);
}

/** Its database was lost, or its retention has passed. */
const forgotten = (batchId: string): string => `Temporal no longer knows batch ${batchId}`;

async function typeOf(id: string, { client, within }: Server): Promise<string | null> {
  try {
    return (await within(BRIEF_MS, () => client.workflow.getHandle(id).describe())).type;
  } catch (error) {
    if (error instanceof WorkflowNotFoundError) return null;
    throw error;
  }
}

function steering(
  server: Server,
): Pick<BatchClient, 'status' | 'stop' | 'cancel' | 'setMaxInFlight'> {
  return {
    stop: async (batchId) => {
      const handle = server.client.workflow.getHandle(batchId);
      await server
        .within(CALL_MS, () => handle.signal('stop'))
        .catch((error: unknown) => {
          if (!(error instanceof WorkflowNotFoundError)) throw error;
          throw new Error(`no batch ${batchId} runs on this server`);
        });
      return await server.within(CALL_MS, () => handle.describe()).then(whyPaused, () => null);
    },
    status: async (batchId) => {
      try {
        const handle = server.client.workflow.getHandle(batchId);
        return isOpen(await server.within(CALL_MS, () => handle.describe())) ? 'running' : 'ended';
      } catch (error) {
        if (error instanceof WorkflowNotFoundError) return null;
        throw error;
      }
    },
    cancel: async (batchId) => {
      const handle = server.client.workflow.getHandle(batchId);
      await server.within(CALL_MS, () => handle.cancel());
      await server
        .within(CANCEL_MS, () => handle.result())
        .catch((error: unknown) => {
          if (!(error instanceof WorkflowFailedError)) throw error;
        });
    },
    setMaxInFlight: async (batchId, max_in_flight) => {
      const handle = server.client.workflow.getHandle(batchId);
      const ask = () =>
        handle.startUpdate('set_max_in_flight', {
          args: [{ max_in_flight }],
          waitForStage: 'ACCEPTED',
        });
      await updated(server, {
        workflowId: batchId,
        start: () => server.within(CALL_MS, ask),
      });
    },
  };
}

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
