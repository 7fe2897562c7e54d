import { setTimeout as sleep } from 'node:timers/promises';
import { loadClientConnectConfig } from '@temporalio/envconfig';
import type { NativeConnectionOptions } from '@temporalio/worker';
import { NativeConnection } from '@temporalio/worker';
import type { Logger } from 'pino';
import type { Config } from './config.js';

const RETRY_MS = 2000;
const GIVE_UP_MS = 5 * 60_000;

export interface Connected {
  connection: NativeConnection;
  address: string;
  namespace: string;
}

/** Address and namespace: temporal.yaml's, else TEMPORAL_* variables and temporal.toml, else the local default. */
function connectionSettings({ temporal }: Pick<Config, 'temporal'>): {
  options: NativeConnectionOptions & { address: string };
  namespace: string;
} {
  const { profile, address, namespace } = temporal;
  const found = readProfile(profile);
  return {
    options: {
      ...found.connectionOptions,
      address: address ?? found.connectionOptions.address ?? '127.0.0.1:7233',
    },
    namespace: namespace ?? found.namespace ?? 'default',
  };
}

function readProfile(profile: string | null): ReturnType<typeof loadClientConnectConfig> {
  try {
    return loadClientConnectConfig(profile === null ? {} : { profile });
  } catch (cause) {
    const which = profile === null ? 'the default profile' : `profile ${profile}`;
    throw new Error(`cannot read ${which} of temporal.toml (TEMPORAL_CONFIG_FILE names it)`, {
      cause,
    });
  }
}

/** A server that is not there yet is waited for, aloud, for five minutes; null when `signal` ends the wait. */
export async function connect(
  config: Config,
  { log, signal }: { log: Logger; signal: AbortSignal },
): Promise<Connected | null> {
  const { options, namespace } = connectionSettings(config);
  const { address } = options;
  for (const end = Date.now() + GIVE_UP_MS; ;) {
    try {
      return { connection: await NativeConnection.connect(options), address, namespace };
    } catch (cause) {
      if (Date.now() > end) {
        throw new Error(
          `no Temporal server at ${address}; start one (temporal server start-dev), or name it in temporal.yaml or TEMPORAL_ADDRESS`,
          { cause },
        );
      }
      log.warn({ address }, 'waiting for the Temporal server');
      await sleep(RETRY_MS, undefined, { signal }).catch(() => undefined);
      if (signal.aborted) return null;
    }
  }
}
