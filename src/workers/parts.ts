import type { DeployedEnvironment, GenerationPool } from '../activities/dependencies.js';
import { createEnvironment } from '../environments/registry.js';
import type { GenerationService } from '../generation/generation-service.js';
import { createReplicas } from '../generation/replicas.js';
import { createVllmService } from '../generation/vllm/vllm-service.js';
import { toMs } from '../model/durations.js';
import { createFileStore } from '../trajectories/file-store.js';
import type { TrajectoryStore } from '../trajectories/trajectory-store.js';
import type { Config, GenerationServiceSettings } from './config.js';
import { bytesOf } from './config.js';

/** What temporal.yaml describes, made: the one place where adapters are chosen. */
export interface Parts {
  store: TrajectoryStore;
  pools: ReadonlyMap<string, GenerationPool>;
  environments: ReadonlyMap<string, DeployedEnvironment>;
  close(): Promise<void>;
}

/** The share of `worker.memory` that folded journals may take. */
const FOLD_SHARE = 0.25;

export function createParts(config: Config, env: NodeJS.ProcessEnv): Parts {
  const pools = new Map(
    Object.entries(config.generation).map(([name, settings]) => [
      name,
      createPool({ name, settings, env }),
    ]),
  );
  const environments = new Map(
    Object.entries(config.environments).map(([task, settings]) => [
      task,
      { environment: createEnvironment(settings), task_queue: environmentQueue(config, task) },
    ]),
  );
  return {
    store: createFileStore({
      root: config.store.root,
      max_cached_bytes: bytesOf(config.worker.memory) * FOLD_SHARE,
    }),
    pools,
    environments,
    close: async () => {
      const replicas = [...pools.values()].flatMap((pool) => pool.replicas);
      await Promise.all(replicas.map((replica) => replica.close()));
    },
  };
}

/** Its own where one is configured, else the deployment's. */
export function environmentQueue({ temporal, environments }: Config, task: string): string {
  const settings = environments[task];
  const own = settings !== undefined && 'task_queue' in settings ? settings.task_queue : undefined;
  return own ?? `${temporal.task_queue}-environment`;
}

export const generationQueue = ({ temporal }: Config): string =>
  `${temporal.task_queue}-generation`;

function createPool({
  name,
  settings,
  env,
}: {
  name: string;
  settings: GenerationServiceSettings;
  env: NodeJS.ProcessEnv;
}): GenerationPool {
  const api_key = apiKeyOf(name, { settings, env });
  const create = (url: string): GenerationService =>
    createVllmService({
      base_url: url.replace(/\/$/, ''),
      api_key,
      first_token_timeout_ms: toMs(settings.first_token_timeout),
      idle_timeout_ms: toMs(settings.idle_timeout),
    });
  const [first = '', ...others] = settings.base_urls;
  const { all, pick } = createReplicas([create(first), ...others.map(create)]);
  const { model, special_tokens } = settings;
  return { replicas: all, pick, model, special_tokens };
}

function apiKeyOf(
  name: string,
  { settings, env }: { settings: GenerationServiceSettings; env: NodeJS.ProcessEnv },
): string | null {
  const variable = settings.api_key_env;
  if (variable === null) return null;
  const key = env[variable];
  if (key !== undefined && key !== '') return key;
  throw new Error(
    `generation.${name}.api_key_env: expected the environment variable ${variable} to hold the key, it is not set`,
  );
}
