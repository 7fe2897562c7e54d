import { setTimeout as sleep } from 'node:timers/promises';
import type { NativeConnectionOptions, Worker } from '@temporalio/worker';
import { NativeConnection } from '@temporalio/worker';
import type { Logger } from 'pino';
import { unreached, whyUnreached } from '../temporal/server-address.js';
import type { Config } from './config.js';
import type { ConnectionSettings } from './connection-settings.js';
import { connectionSettings } from './connection-settings.js';
import { keepLooking } from './keep-looking.js';

const RETRY_MS = 2000;
const GIVE_UP_MS = 5 * 60_000;
/** New certificates are used within this time. */
const LOOK_MS = 15_000;

export interface Connected {
  connection: NativeConnection;
  address: string;
  namespace: string;
  settings: ConnectionSettings;
}

/** Waits five minutes for a server, and says so; null: `signal` ended it. Throws at once what waiting does not mend. */
export async function connect(
  config: Pick<Config, 'temporal'>,
  { log, signal }: { log: Logger; signal: AbortSignal },
): Promise<Connected | null> {
  for (const end = performance.now() + GIVE_UP_MS; ;) {
    const settings = connectionSettings(config);
    const { options, namespace, address_from: setting } = settings;
    const { address } = options;
    try {
      return { connection: await connectTo(options), address, namespace, settings };
    } catch (cause) {
      const why = await whyUnreached(cause, { ...options, setting });
      if (why.isFinal || performance.now() > end) throw unreached(why);
      log.warn({ address, why: why.what }, 'waiting for the Temporal server');
      await sleep(RETRY_MS, undefined, { signal }).catch(() => undefined);
      if (signal.aborted) return null;
    }
  }
}

/**
 * Certificates, keys and tokens are renewed while a worker runs. Once their files have changed, all that the worker sends
 * goes over a new connection, which is made from them. Until it is accepted the one before it stays. Returns a function
 * that ends the looks.
 */
export function keepConnection(
  connected: Connected,
  {
    workers,
    log,
    every_ms = LOOK_MS,
  }: { workers: readonly Worker[]; log: Pick<Logger, 'info' | 'warn'>; every_ms?: number },
): () => void {
  const look = async (): Promise<void> => {
    if (await renew(connected, workers))
      log.info('connected anew: certificates or keys have changed');
  };
  return keepLooking(look, {
    every_ms,
    failed: (why) => {
      log.warn(`changed certificates or keys are not used: ${why}`);
    },
  });
}

async function renew(connected: Connected, workers: readonly Worker[]): Promise<boolean> {
  const { connection, address, settings: before } = connected;
  const settings = before.again();
  if (settings.trust === before.trust) return false;
  const options = { ...settings.options, address };
  const next = await NativeConnection.connect(options).catch(async (cause: unknown) => {
    throw unreached(await whyUnreached(cause, { ...options, setting: settings.address_from }));
  });
  for (const worker of workers) worker.connection = next;
  sendBy(next, connection);
  connected.settings = settings;
  const closeOld = connection.close.bind(connection);
  connection.close = () => next.close();
  await closeOld();
  return true;
}

const SERVICES = ['workflowService', 'operatorService', 'healthService'] as const;

/** Many parts of a worker hold its first connection, or a service of it: these stay, and send by the next one. */
function sendBy(next: NativeConnection, connection: NativeConnection): void {
  // Where calls look for their deadlines.
  Object.assign(next, { callContextStorage: connection.callContextStorage });
  for (const name of SERVICES) connection[name].rpcImpl = next[name].rpcImpl;
}

/**
 * The SDK keeps an asynchronous context around each activity, with a signal that ends calls. Nothing here uses it, and
 * following it is expensive (activities/attempt.ts).
 */
async function connectTo(options: NativeConnectionOptions): Promise<NativeConnection> {
  const connection = await NativeConnection.connect(options);
  connection.withAbortSignal = (_, call) => call();
  return connection;
}
