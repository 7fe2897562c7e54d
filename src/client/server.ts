import type { ConnectionOptions } from '@temporalio/client';
import {
  Client,
  Connection,
  ServiceError,
  WorkflowUpdateRPCTimeoutOrCancelledError,
} from '@temporalio/client';

/** For connections to a server of this machine: no proxy, and fast reconnection after a restart. */
export const LOOPBACK_CHANNEL = {
  'grpc.enable_http_proxy': 0,
  'grpc.initial_reconnect_backoff_ms': 100,
  'grpc.min_reconnect_backoff_ms': 100,
  'grpc.max_reconnect_backoff_ms': 1000,
};

/** Address of a Temporal server, and how to connect to it. */
export interface ServerAddress {
  options: ConnectionOptions & { address: string };
  namespace: string;
}

/** A server of this machine. */
export const onLoopback = ({
  address,
  namespace,
}: {
  address: string;
  namespace: string;
}): ServerAddress => ({ options: { address, channelArgs: LOOPBACK_CHANNEL }, namespace });

/** Deadline of a call that the server answers at once. */
export const CALL_MS = 20_000;

/** A Temporal server, for code outside a worker. */
export interface Server {
  address: string;
  client: Client;
  within: <T>(ms: number, call: () => Promise<T>) => Promise<T>;
  close: () => Promise<void>;
}

/** Rejects if the server does not answer. */
export async function connectServer(server: ServerAddress): Promise<Server> {
  const connection = await Connection.connect(server.options).catch((cause: unknown) => {
    throw new Error(
      `no Temporal server at ${server.options.address}; start one (npm start), or name it in TEMPORAL_ADDRESS`,
      { cause },
    );
  });
  return serverOn(connection, server);
}

/** For callers that wait for a server: calls fail while it does not answer. */
export const openServer = (server: ServerAddress): Server =>
  serverOn(Connection.lazy(server.options), server);

const serverOn = (connection: Connection, { options, namespace }: ServerAddress): Server => ({
  address: options.address,
  client: new Client({ connection, namespace }),
  within: (ms, call) => connection.withDeadline(Date.now() + ms, call),
  close: () => connection.close(),
});

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
    const isSilence =
      error instanceof ServiceError || error instanceof WorkflowUpdateRPCTimeoutOrCancelledError;
    if (!isSilence) throw error;
    throw new Error(`no worker answers for ${workflowId}; is one running on its task queue?`, {
      cause: error,
    });
  }
}
