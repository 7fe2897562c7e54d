import { setTimeout as sleep } from 'node:timers/promises';
import type { NativeConnectionOptions } from '@temporalio/worker';
import { NativeConnection } from '@temporalio/worker';
import type { Logger } from 'pino';
import { noServer } from '../temporal/server-address.js';
import type { Config } from './config.js';
import { connectionSettings } from './connection-settings.js';

const RETRY_MS = 2000;
const GIVE_UP_MS = 5 * 60_000;

export interface Connected {
  connection: NativeConnection;
  address: string;
  namespace: string;
}

/** Waits up to five minutes for a missing server, and says so; null if `signal` ends the wait. */
export async function connect(
  config: Config,
  { log, signal }: { log: Logger; signal: AbortSignal },
): Promise<Connected | null> {
  const { options, namespace, address_from } = connectionSettings(config);
  const { address } = options;
  for (const end = performance.now() + GIVE_UP_MS; ;) {
    try {
      return { connection: await connectTo(options), address, namespace };
    } catch (cause) {
      if (performance.now() > end) throw noServer(cause, { address, setting: address_from });
      log.warn({ address }, 'waiting for the Temporal server');
      await sleep(RETRY_MS, undefined, { signal }).catch(() => undefined);
      if (signal.aborted) return null;
    }
  }
}

/**
 * The SDK keeps an asynchronous context around each activity, with a signal that ends calls. This kind of connection
 * ignores it, and following it is expensive (activities/attempt.ts).
 */
async function connectTo(options: NativeConnectionOptions): Promise<NativeConnection> {
  const connection = await NativeConnection.connect(options);
  connection.withAbortSignal = (_, call) => call();
  return connection;
}
