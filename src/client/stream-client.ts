import { randomUUID } from 'node:crypto';
import type { WorkflowUpdateHandle } from '@temporalio/client';
import { WorkflowFailedError } from '@temporalio/client';
import type { StreamProgress } from '../activities/contract/stream.js';
import { describeError } from '../platform/errors.js';
import { orAborted } from '../platform/waits/abort.js';
import { whyItStands } from '../temporal/failing-task.js';
import { isOpen } from '../temporal/workflow-status.js';
import type { Server, ServerAddress } from './server.js';
import { CALL_MS, connectServer, patiently, query, queuedFor, stopped, updated } from './server.js';

export interface StreamLook {
  progress: StreamProgress;
  /** How it was ended from outside; null: it runs, or it ended itself. */
  ended: string | null;
  queued?: number;
}

export type StreamClient = Awaited<ReturnType<typeof connectStream>>;

/** A started stream, for code outside a worker. */
export async function connectStream(address: ServerAddress, id: string) {
  const server = await connectServer(address);
  const handle = server.client.workflow.getHandle(id);
  return {
    /** Throws if Temporal does not have it. */
    look: () => look(id, server),
    /** Deletes delivered steps up to this one; returns the first one that is kept. */
    forget: async (through: number): Promise<{ kept_from: number }> => {
      // A worker accepts at once; the deletion may take long.
      const args: [object] = [{ through }];
      const options = { args, updateId: randomUUID() };
      const ask = (): Promise<WorkflowUpdateHandle<{ kept_from: number }>> =>
        handle.startUpdate('forget', { ...options, waitForStage: 'ACCEPTED' });
      return await updated(server, { workflowId: id, start: () => server.within(CALL_MS, ask) });
    },
    /** Asks it to end. Returns why it does not end yet; null: it ends. */
    stop: () => stopped(server, handle),
    /** Waits for its end. false: a slow server does not confirm it in time. */
    ended: () => endsWithin(END_MS, () => server.within(END_MS, () => handle.result())),
    close: server.close,
  };
}

const END_MS = 120_000;

/** Whether `result` answers in time. A slow server gives a single call up before that; then it is asked again. */
export async function endsWithin(ms: number, result: () => Promise<unknown>): Promise<boolean> {
  const signal = AbortSignal.timeout(ms);
  try {
    await orAborted(patiently(result, signal), signal);
    return true;
  } catch (error) {
    if (signal.aborted) return false;
    throw error;
  }
}

async function look(id: string, server: Server): Promise<StreamLook> {
  const { client, within } = server;
  const handle = client.workflow.getHandle(id);
  const described = await within(CALL_MS, () => handle.describe());
  const { status, taskQueue } = described;
  const why = await within(CALL_MS, () => whyItStands(client, described));
  if (why !== null) throw new Error(why);
  // A closed workflow answers with its last state.
  const progress = await query<StreamProgress>(server, { workflowId: id, name: 'progress' });
  if (isOpen(described)) return { progress, ended: null, ...(await queuedFor(server, taskQueue)) };
  if (status.name === 'COMPLETED') return { progress, ended: null };
  const failure: unknown = await within(CALL_MS, () => handle.result()).catch(
    (error: unknown) => error,
  );
  const cause = failure instanceof WorkflowFailedError ? (failure.cause ?? failure) : failure;
  return { progress, ended: `${status.name.toLowerCase()}: ${describeError(cause)}` };
}
