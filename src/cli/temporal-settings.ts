import type { ServerAddress } from '../client/server.js';
import { Config } from '../workers/config.js';
import { connectionSettings } from '../workers/connection-settings.js';
import { givenConfig, fileOfStack } from './store.js';

/** Without a temporal.yaml the defaults apply, and no service is known: a trainer's machine needs none. */
export async function temporalSettings(
  file: string | undefined,
): Promise<{ server: ServerAddress; taskQueue: string; services: Config['generation'] }> {
  const config = await givenConfig(await fileOfStack(file));
  const temporal = config?.temporal ?? Config.shape.temporal.parse({});
  const { task_queue: taskQueue } = temporal;
  const server = { ...connectionSettings({ temporal }), taskQueue };
  return { server, taskQueue, services: config?.generation ?? {} };
}
