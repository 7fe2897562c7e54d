import { setTimeout as sleep } from 'node:timers/promises';
import type { ConnectionOptions, WorkflowHandle, WorkflowUpdateHandle } from '@temporalio/client';
import {
  ApplicationFailure,
  Client,
  Connection,
  QueryRejectedError,
  ServiceError,
  WorkflowFailedError,
  WorkflowUpdateFailedError,
  WorkflowUpdateRPCTimeoutOrCancelledError,
  isGrpcServiceError,
} from '@temporalio/client';
import { dataConverter } from '../activities/contract/data-converter.js';
import { describeError } from '../platform/errors.js';
import { generationQueueOf } from '../model/workflow-safe/queues.js';
import { writeJson } from '../platform/json/kept.js';
import { backlogOf, lastSign, mayBeAlive } from '../temporal/pollers.js';
import { oneDeployment } from '../activities/contract/one-deployment.js';
import type { Unreached } from '../temporal/server-address.js';
import {
  ADDRESS_VARIABLE,
  DIRECT_CHANNEL,
  unreached,
  whyUnreached,
} from '../temporal/server-address.js';
import { onTaskQueue, pausedText, whyPaused } from '../temporal/workflow-status.js';

/** For connections to a server of this machine: fast reconnection after a restart. */
export const LOOPBACK_CHANNEL = {
  ...DIRECT_CHANNEL,
  'grpc.initial_reconnect_backoff_ms': 100,
  'grpc.min_reconnect_backoff_ms': 100,
  'grpc.max_reconnect_backoff_ms': 1000,
};

export interface ServerAddress {
  options: ConnectionOptions & { address: string };
  namespace: string;
  /** The setting that counts for its address, for messages. */
  address_from?: string;
  /** Differs as soon as certificates or keys do. */
  trust?: string;
  /** The same with certificates and keys as they are now; throws if they cannot be read. */
  again?: () => Pick<ServerAddress, 'options' | 'trust' | 'again'>;
  /** `temporal.task_queue` of the deployment whose workflows these are; absent: any one's. */
  taskQueue?: string;
}

/** A server of this machine. */
export const onLoopback = ({
  address,
  namespace,
  taskQueue,
}: Pick<ServerAddress, 'namespace' | 'taskQueue'> & { address: string }): ServerAddress => ({
  options: { address, channelArgs: LOOPBACK_CHANNEL },
  namespace,
  ...(taskQueue !== undefined && { taskQueue }),
});

/** Deadline of a call that the server answers at once. */
export const CALL_MS = 20_000;

/** Above 2 MB a workflow cannot even refuse its input. Above 4 the server takes no message, and seems only late. */
const MOST_BYTES = 2 ** 20;

export function checkSize(what: string, input: unknown): void {
  const bytes = Buffer.byteLength(writeJson([input]));
  if (bytes <= MOST_BYTES) return;
  throw new Error(
    `${what}: expected at most ${MOST_BYTES} bytes of arguments, got ${bytes}; nothing was sent`,
  );
}

export type Server = ReturnType<typeof serverOn>;

/** Rejects if the server does not answer. */
export async function connectServer(server: ServerAddress): Promise<Server> {
  await greet(server).catch(async (error: unknown) => {
    const why = await whyNot(server, error);
    if (why.isFinal || isRefused(error)) throw unreached(why);
  });
  const connection = await Connection.connect(server.options).catch(async (cause: unknown) => {
    throw unreached(await whyNot(server, cause));
  });
  return serverOn(server, { open: lazily, connection });
}

/** Why a call has failed that has not reached the server. */
export const whyNot = (
  { options, address_from: setting = ADDRESS_VARIABLE }: ServerAddress,
  error: unknown,
): Promise<Unreached> => whyUnreached(error, { ...options, setting });

/** How long a server of this machine may take for an answer. */
const GREET_MS = 2000;

/** Rejects as soon as the server cannot be reached. `Connection.connect` would try again for ten seconds. */
async function greet(server: ServerAddress): Promise<void> {
  const looks = openServerToLook(server);
  try {
    await looks.within(GREET_MS, () => looks.client.workflowService.getSystemInfo({}));
  } finally {
    await looks.close();
  }
}

/** No process listens there. false: the error is another one, and may pass. */
const isRefused = (error: unknown): boolean => /connect ECONNREFUSED/.test(describeError(error));

/** For callers that wait for a server: calls fail while it does not answer. */
export const openServer = (server: ServerAddress): Server => serverOn(server, { open: lazily });

/** For callers that ask again and again: a call fails as soon as the server cannot be reached. */
export const openServerToLook = (server: ServerAddress): Server =>
  serverOn(server, { open: (options) => lazily({ ...options, interceptors: [] }) });

const lazily = (options: ServerAddress['options']): Connection => Connection.lazy(options);

/**
 * A Temporal server, for code outside a worker. After a call that did not reach it, the next one goes over a new
 * connection if certificates or keys differ.
 */
function serverOn(
  address: ServerAddress,
  { open, connection = open(address.options) }: { open: typeof lazily; connection?: Connection },
) {
  let now = { address, connection, client: clientOn(connection, address) };
  const renew = async (): Promise<void> => {
    const { address, connection: before } = now;
    const { trust } = address;
    const again = { ...address, ...address.again?.() };
    if (again.trust === trust) return;
    const next = { ...again, options: { ...again.options, address: address.options.address } };
    const connection = open(next.options);
    now = { address: next, connection, client: clientOn(connection, next) };
    await before.close();
  };
  return {
    address: address.options.address,
    /** The task queue of its deployment; undefined: workflows of any deployment are reached. */
    taskQueue: address.taskQueue,
    /** It changes with the files of certificates and keys: ask for it at each call. */
    get client() {
      return now.client;
    },
    within: async <T>(ms: number, call: () => Promise<T>): Promise<T> => {
      try {
        return await now.connection.withDeadline(Date.now() + ms, call);
      } catch (error) {
        // Files that are just being replaced are looked at again after the next call.
        if (NOT_REACHED.includes(ofGrpc(error).code)) await renew().catch(() => undefined);
        throw error;
      }
    },
    /** Why a call has failed that has not reached it. */
    why: (error: unknown) => whyNot(now.address, error),
    close: () => now.connection.close(),
  };
}

const clientOn = (connection: Connection, { namespace, taskQueue }: ServerAddress): Client =>
  new Client({
    connection,
    namespace,
    dataConverter,
    interceptors: {
      workflow:
        taskQueue === undefined
          ? []
          : [oneDeployment({ server: connection.workflowService, namespace, taskQueue })],
    },
  });

/** The end of a search, for the workflows of one deployment. */
export const onQueue = (taskQueue: string | undefined): string =>
  taskQueue === undefined ? '' : ` AND ${onTaskQueue(taskQueue)}`;

/** Asks a workflow to end. Returns why it does not end yet; null: it ends. */
export async function stopped(
  { within }: Pick<Server, 'within'>,
  handle: WorkflowHandle,
): Promise<string | null> {
  await within(CALL_MS, () => handle.signal('stop'));
  return await within(CALL_MS, () => handle.describe()).then(whyPaused, () => null);
}

/** Asks a workflow. Throws `WorkflowNotFoundError`, or an error that says that no worker answers. */
export async function query<T>(
  { client, within }: Pick<Server, 'client' | 'within'>,
  { workflowId, name }: { workflowId: string; name: string },
): Promise<T> {
  return await answered(workflowId, () =>
    within(CALL_MS, () => client.workflow.getHandle(workflowId).query<T>(name)),
  );
}

/** The answer of a worker; throws an error that says that none answers. */
export async function answered<T>(workflowId: string, call: () => Promise<T>): Promise<T> {
  try {
    return await call();
  } catch (error) {
    const refusal = refusedByServer(error, workflowId);
    const isLate = error instanceof WorkflowUpdateRPCTimeoutOrCancelledError;
    if (refusal === null && ofGrpc(error).code < 0 && !isLate) throw error;
    throw new Error(refusal ?? noWorkerFor(workflowId), { cause: error });
  }
}

const ASK_AGAIN_MS = 1000;

/**
 * What the server itself answers an update with that no run has answered, as in Python's connection.py: the run ended,
 * or continued in a new one; or a worker returned its task without a word of the update.
 */
const UNANSWERED = new Set(['AcceptedUpdateCompletedWorkflow', 'UnprocessedUpdate']);

/**
 * The answer of an update that may be repeated; `start` sends it, and again if the server says that no run has answered
 * it. Rejects with the workflow's refusal, or with the fault by which a run ended itself: the next one would, too.
 */
export async function updated<T>(
  { client }: Pick<Server, 'client'>,
  { workflowId, start }: { workflowId: string; start: () => Promise<WorkflowUpdateHandle<T>> },
): Promise<T> {
  for (;;) {
    const asked = await answered(workflowId, start);
    try {
      return await patiently(() => asked.result());
    } catch (error) {
      const cause = error instanceof WorkflowUpdateFailedError ? error.cause : undefined;
      const type = cause instanceof ApplicationFailure ? (cause.type ?? '') : '';
      if (!UNANSWERED.has(type)) throw error;
      const { workflowRunId: run } = asked;
      if (type !== 'UnprocessedUpdate') await throwOwnFault(client, { workflowId, run });
    }
    await sleep(ASK_AGAIN_MS);
  }
}

/** An accepted update lasts as long as its engines need; a server that is busy or away meanwhile is asked again. */
export async function patiently<T>(result: () => Promise<T>, signal?: AbortSignal): Promise<T> {
  for (;;) {
    try {
      return await result();
    } catch (error) {
      if (!isAway(error)) throw error;
      await sleep(ASK_AGAIN_MS, undefined, signal && { signal });
    }
  }
}

/** Whether the server may answer the same call later, as in Python's connection.py. */
function isAway(error: unknown): boolean {
  if (error instanceof WorkflowUpdateRPCTimeoutOrCancelledError) return true;
  const { code, details } = ofGrpc(error);
  const passes = [CANCELLED, DEADLINE_EXCEEDED, RESOURCE_EXHAUSTED, ABORTED, UNAVAILABLE];
  return passes.includes(code) && !details.includes('larger than max');
}

/** Throws the fault of a run that has ended. One that was terminated, cancelled or continued may be asked again. */
async function throwOwnFault(
  client: Client,
  { workflowId, run }: { workflowId: string; run: string | undefined },
): Promise<void> {
  const handle = client.workflow.getHandle(workflowId, run, { followRuns: false });
  const ended: unknown = await handle.result().catch((error: unknown) => error);
  if (ended instanceof WorkflowFailedError && ended.cause instanceof ApplicationFailure)
    throw ended.cause;
}

/** Why the server itself asks no worker; null: it says nothing of the kind. */
function refusedByServer(error: unknown, workflowId: string): string | null {
  // The only reason for which it does that unasked.
  if (error instanceof QueryRejectedError) return pausedText(workflowId);
  const { code, details } = ofGrpc(error);
  if (code === FAILED_PRECONDITION && /is paused/i.test(details)) return pausedText(workflowId);
  if (code === RESOURCE_EXHAUSTED && /rate limit/i.test(details))
    return `the Temporal server takes no more requests for now: ${details}`;
  return null;
}

const noWorkerFor = (workflowId: string, taskQueue?: string): string =>
  `no worker answers for ${workflowId} yet; one has to run on ${taskQueue === undefined ? 'its task queue' : `task queue ${taskQueue}`}`;

const [CANCELLED, DEADLINE_EXCEEDED, RESOURCE_EXHAUSTED] = [1, 4, 8];
const [FAILED_PRECONDITION, ABORTED, UNAVAILABLE] = [9, 10, 14];
/** Late: a call that the SDK has tried again and again. */
const NOT_REACHED = [UNAVAILABLE, DEADLINE_EXCEEDED];

/** Of another error, a code that gRPC does not have. */
function ofGrpc(error: unknown): { code: number; details: string } {
  const cause: unknown = error instanceof ServiceError ? error.cause : error;
  return isGrpcServiceError(cause) ? cause : { code: -1, details: '' };
}

/** Why a workflow or its server gave no answer, for people; null: it is only slow. */
export function silenceOf(
  error: unknown,
  { address, workflowId, taskQueue }: { address: string; workflowId: string; taskQueue?: string },
): string | null {
  const refusal = refusedByServer(error, workflowId);
  if (refusal !== null) return refusal;
  const { code, details } = ofGrpc(error);
  if (code < 0) return describeError(error);
  // Exhausted: earlier queries still wait for the worker. Parts of a server report their timeouts under any code.
  const isSlow = [CANCELLED, DEADLINE_EXCEEDED, RESOURCE_EXHAUSTED].includes(code);
  if (isSlow || /deadline|timed out/i.test(details)) return null;
  if (code === UNAVAILABLE)
    return `waiting for the Temporal server at ${address}${because(details)}`;
  // The server says it of a task queue that nobody has polled for minutes.
  const isUnpolled = code === FAILED_PRECONDITION && details.includes('no poller');
  return isUnpolled ? noWorkerFor(workflowId, taskQueue) : details;
}

/** gRPC's text about a connection has the last error of several, and when that was: each look would be news. */
const LAST_ERROR = /Last error: (?:Error: )?(.*?)(?:\. Resolution note: .*)?$/s;
const AT_TIME = / \(\d{4}-\d\d-\d\dT[\d:.]+Z\)/g;

const UNKNOWN_SHARD = 'shard status unknown';

function because(details: string): string {
  const [, last = details] = LAST_ERROR.exec(details) ?? [];
  const why = last.replaceAll(AT_TIME, '').trim();
  if (why === '') return '';
  return `: ${why}${why === UNKNOWN_SHARD ? ' (it has just started, or cannot write its database)' : ''}`;
}

/** The same of a look, with the reason and the next step where waiting does not help. */
export async function silenceAt(
  server: Pick<Server, 'address' | 'why'>,
  { error, workflowId }: { error: unknown; workflowId: string },
): Promise<string | null> {
  const silence = silenceOf(error, { address: server.address, workflowId });
  if (silence === null || ofGrpc(error).code !== UNAVAILABLE) return silence;
  const { what, remedy, isFinal } = await server.why(error);
  return isFinal
    ? `waiting for the Temporal server at ${server.address}: ${what}; ${remedy}`
    : silence;
}

/** How many tasks wait for slots of the workers that play rollouts, about; absent: the server does not say. */
export async function queuedFor(
  { client, within }: Pick<Server, 'client' | 'within'>,
  taskQueue: string,
): Promise<{ queued?: number }> {
  const { namespace } = client.options;
  const queue = { namespace, name: generationQueueOf(taskQueue), type: 'activity' } as const;
  const asking = () => backlogOf(client.workflowService, queue);
  const queued = await within(CALL_MS, asking).catch(() => null);
  return queued === null ? {} : { queued };
}

/** The last sign of life of a task queue's workers: a fact, also where nobody knows why there is no answer. */
export interface Seen {
  taskQueue: string;
  ago_s: number;
}

/** What `silenceOf` says where no worker runs for the workflow, or when one was seen; null: the server is slow. */
export async function lastSeen(
  { client, within }: Pick<Server, 'client' | 'within'>,
  { workflowId, taskQueue }: { workflowId: string; taskQueue: string },
): Promise<string | Seen | null> {
  const { namespace } = client.options;
  const queue = { namespace, name: taskQueue, type: 'workflow' } as const;
  try {
    const sign = await within(CALL_MS, () => lastSign(client.workflowService, queue));
    return mayBeAlive(sign) ? { taskQueue, ago_s: sign.ago } : noWorkerFor(workflowId, taskQueue);
  } catch {
    return null;
  }
}
