import path from 'node:path';
import type { ServerAddress } from '../client/server.js';
import { answers, onLoopback } from '../client/server.js';
import { plain } from '../platform/plain.js';
import { Config, loadConfig } from '../workers/config.js';
import { connectionSettings } from '../workers/connection-settings.js';
import { DEFAULT_FILE } from './arguments.js';
import { givenConfig, stackHere } from './store.js';

/**
 * Of `file`, the stack that runs here, or ./temporal.yaml. Without any the defaults apply, and no service is known: a
 * trainer's machine needs none.
 */
export async function temporalSettings(
  file: string | undefined,
): Promise<{ server: ServerAddress; taskQueue: string; services: Config['generation'] }> {
  const config = await givenConfig(file ?? (await stackHere()));
  const temporal = config?.temporal ?? Config.shape.temporal.parse({});
  const { task_queue: taskQueue } = temporal;
  const server = { ...connectionSettings({ temporal }), taskQueue };
  await warnOfOtherStack(file ?? DEFAULT_FILE, server);
  return { server, taskQueue, services: config?.generation ?? {} };
}

/** A command without `export TEMPORAL_ADDRESS` would use somebody else's stack unnoticed. */
async function warnOfOtherStack(file: string, { options }: ServerAddress): Promise<void> {
  const folder = path.dirname(path.resolve(file));
  const settings = await loadConfig(path.join(folder, '.rollouts', 'temporal.yaml')).catch(
    () => null,
  );
  const { address, namespace } = settings?.temporal ?? {};
  if (typeof address !== 'string' || address === options.address) return;
  if (!(await answers(onLoopback({ address, namespace: namespace ?? 'default' })))) return;
  console.error(
    plain(
      `the stack of this folder is at ${address}; this command uses ${options.address} (export TEMPORAL_ADDRESS=${address} chooses the stack)`,
    ),
  );
}
