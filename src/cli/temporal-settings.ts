import type { ServerAddress } from '../client/server.js';
import { exists } from '../platform/files.js';
import { Config, loadConfig } from '../workers/config.js';
import { connectionSettings } from '../workers/connection-settings.js';

const DEFAULT_FILE = './temporal.yaml';

/**
 * Where the Temporal server is, and the task queue of its workers. Without a temporal.yaml the defaults apply: a
 * trainer's machine needs none.
 */
export async function temporalSettings(
  file: string | undefined,
): Promise<{ server: ServerAddress; taskQueue: string }> {
  const isGiven = file !== undefined || (await exists(DEFAULT_FILE));
  const { temporal } = isGiven
    ? await loadConfig(file ?? DEFAULT_FILE)
    : { temporal: Config.shape.temporal.parse({}) };
  return { server: connectionSettings({ temporal }), taskQueue: temporal.task_queue };
}
