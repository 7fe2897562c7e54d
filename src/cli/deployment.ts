import { access } from 'node:fs/promises';
import { Config, loadConfig } from '../workers/config.js';

const DEFAULT_FILE = './temporal.yaml';

/**
 * Where the Temporal server is and which queue batches go to. Without a temporal.yaml the defaults apply: a trainer's
 * machine needs none.
 */
export async function temporalSettings(
  file: string | undefined,
): Promise<Pick<Config, 'temporal'>> {
  if (file !== undefined || (await isThere(DEFAULT_FILE))) {
    return await loadConfig(file ?? DEFAULT_FILE);
  }
  return { temporal: Config.shape.temporal.parse({}) };
}

const isThere = (file: string): Promise<boolean> =>
  access(file).then(
    () => true,
    () => false,
  );
