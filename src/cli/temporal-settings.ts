import path from 'node:path';
import type { ServerAddress } from '../client/server.js';
import { answers, onLoopback } from '../client/server.js';
import { exists } from '../platform/files.js';
import { plain } from '../platform/plain.js';
import { Config, loadConfig } from '../workers/config.js';
import { openStore } from '../workers/open-store.js';
import { connectionSettings } from '../workers/connection-settings.js';
import type { TrajectoryStore } from '../trajectories/trajectory-store.js';
import { DEFAULT_FILE, fileOfStore } from './arguments.js';
import { meantBatch } from './meant-batch.js';

const givenConfig = async (file: string | undefined): Promise<Config | null> =>
  file !== undefined || (await exists(DEFAULT_FILE))
    ? await loadConfig(file ?? DEFAULT_FILE)
    : null;

/**
 * Where the Temporal server is, the task queue of its workers, and their generation services. Without a temporal.yaml
 * the defaults apply, and no service is known: a trainer's machine needs none.
 */
export async function temporalSettings(
  file: string | undefined,
): Promise<{ server: ServerAddress; taskQueue: string; services: Config['generation'] }> {
  const config = await givenConfig(file);
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

/** How long a person waits for a database. */
const STORE_MS = 5000;

/** The store that temporal.yaml names; `store` is null if it does not answer. */
export interface GivenStore {
  name: string;
  store: TrajectoryStore | null;
}

/** Without a temporal.yaml there is none. */
export async function withGivenStore<T>(
  file: string | undefined,
  use: (given: GivenStore | null) => Promise<T>,
): Promise<T> {
  const config = await givenConfig(file ?? (await fileOfStore()));
  if (config === null) return await use(null);
  const opened = openStore(config, { env: process.env, max_cached_bytes: 0, max_request_bytes: 0 });
  try {
    const { name } = opened.store;
    const isReady = await opened
      .ready({ say: () => undefined, signal: AbortSignal.timeout(STORE_MS) })
      .then(
        () => true,
        () => false,
      );
    return await use({ name, store: isReady ? opened.store : null });
  } finally {
    await opened.close();
  }
}

/** What the store has of the batch, and a batch whose id is nearly the same; one that does not answer has nothing. */
export const storeOfBatch = (
  batchId: string,
  file: string | undefined,
): Promise<{ name: string | null; has: boolean; result: string | null; meant: string }> =>
  withGivenStore(file, async (given) => {
    const nothing = { has: false, result: null, meant: '' };
    if (given === null) return { name: null, ...nothing };
    const { name, store } = given;
    try {
      if (store === null) throw new Error('it is not ready');
      const outputs = store.outputs(batchId);
      const has = (await store.findRequest(batchId)) !== null;
      const result = (await outputs.readMetrics()) === null ? null : outputs.files.metrics;
      return { name, has, result, meant: has ? '' : await meantBatch(batchId, store) };
    } catch {
      return { name: `${name}, which does not answer`, ...nothing };
    }
  });
