import path from 'node:path';
import { stackOf } from '../../dev/folder-claim.js';
import { UsageError } from '../platform/command.js';
import { exists } from '../platform/files.js';
import { plain } from '../platform/plain.js';
import { didYouMean } from '../platform/nearest.js';
import type { OpenStore, TrajectoryStore } from '../trajectories/trajectory-store.js';
import type { Config } from '../workers/config.js';
import { loadConfig } from '../workers/config.js';
import { migrateStore, withStore } from '../workers/open-store.js';
import { optionsIn } from '../platform/arguments.js';
import { DEFAULT_FILE, FILE } from './settings-file.js';

export async function storeCommand([verb = '', ...args]: string[]): Promise<number> {
  if (verb !== 'migrate')
    throw new UsageError(`expected store migrate, got ${JSON.stringify(verb)}`);
  const { config } = optionsIn(args, { config: FILE });
  console.log(await migrateStore(await loadConfig(config), process.env));
  return 0;
}

/** null: no file is named, and the folder has none. */
export const givenConfig = async (file: string | undefined): Promise<Config | null> =>
  file !== undefined || (await exists(DEFAULT_FILE))
    ? await loadConfig(file ?? DEFAULT_FILE)
    : null;

/** In place of a temporal.yaml with which a stack runs, the settings of that, unless TEMPORAL_ADDRESS is another server. */
export async function fileOfStack(given: string | undefined): Promise<string | undefined> {
  const stack = await stackOf(given);
  const { TEMPORAL_ADDRESS: address = stack?.address } = process.env;
  return stack !== null && address === stack.address ? stack.settings : given;
}

/** Where the folder has no temporal.yaml, the one of a stack that has ended names the store. */
export async function fileOfStore(given: string | undefined): Promise<string | undefined> {
  const file = await fileOfStack(given);
  const local = path.join('.rollouts', 'temporal.yaml');
  const isLocal = file === undefined && !(await exists(DEFAULT_FILE)) && (await exists(local));
  return isLocal ? local : file;
}

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
  const config = await givenConfig(await fileOfStore(file));
  if (config === null) return await use(null);
  return await withStore(config, {
    env: process.env,
    within_ms: STORE_MS,
    use: ({ store }) => use({ name: store.name, store }),
    without: (name) => use({ name, store: null }),
  });
}

/** The same for a command that needs it, and says so. */
export async function withStoreThatAnswers<T>(
  file: string | undefined,
  use: (opened: OpenStore) => Promise<T>,
): Promise<T> {
  const config = await loadConfig((await fileOfStore(file)) ?? DEFAULT_FILE);
  return await withStore(config, {
    env: process.env,
    say: (line) => {
      console.error(plain(line));
    },
    use,
  });
}

/** What the store has of the batch, and a batch whose id is nearly the same. A store that does not answer has nothing. */
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

/** The end of a message about a batch that is not in the store: which one was probably meant, or nothing. */
export async function meantBatch(
  batchId: string,
  store: Pick<TrajectoryStore, 'listBatches'>,
): Promise<string> {
  const batches = await store.listBatches();
  const ids = batches.map(({ batch_id }) => batch_id);
  return didYouMean(batchId, ids);
}
