import { randomUUID } from 'node:crypto';
import type { StreamProgress } from '../activities/contract/stream.js';
import type { ServerAddress } from './server.js';
import { CALL_MS, connectServer, query } from './server.js';

/** A started stream, for code outside a worker. */
export interface StreamClient {
  /** The workflow's state; throws if Temporal does not have it. */
  progress: () => Promise<StreamProgress>;
  /** Deletes delivered steps up to this one; returns the first one that is kept. */
  forget: (through: number) => Promise<{ kept_from: number }>;
  /** Resolves when it has ended. */
  stop: () => Promise<void>;
  close: () => Promise<void>;
}

export async function connectStream(address: ServerAddress, id: string): Promise<StreamClient> {
  const server = await connectServer(address);
  const handle = server.client.workflow.getHandle(id);
  return {
    progress: () => query<StreamProgress>(server, { workflowId: id, name: 'progress' }),
    forget: (through) =>
      handle.executeUpdate<{ kept_from: number }, [{ through: number }]>('forget', {
        args: [{ through }],
        updateId: randomUUID(),
      }),
    stop: async () => {
      await server.within(CALL_MS, () => handle.signal('stop'));
      await handle.result();
    },
    close: server.close,
  };
}
