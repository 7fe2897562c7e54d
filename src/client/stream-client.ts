import { randomUUID } from 'node:crypto';
import { Client, Connection } from '@temporalio/client';
import type { StreamProgress } from '../activities/contract/stream.js';
import type { ServerAddress } from './batch-client.js';

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

export async function connectStream(
  { options, namespace }: ServerAddress,
  id: string,
): Promise<StreamClient> {
  const connection = await Connection.connect(options);
  const handle = new Client({ connection, namespace }).workflow.getHandle(id);
  return {
    progress: () => handle.query<StreamProgress>('progress'),
    forget: (through) =>
      handle.executeUpdate<{ kept_from: number }, [{ through: number }]>('forget', {
        args: [{ through }],
        updateId: randomUUID(),
      }),
    stop: async () => {
      await handle.signal('stop');
      await handle.result();
    },
    close: () => connection.close(),
  };
}
