import type { Logger } from 'pino';
import type {
  DeployedEnvironment,
  GenerationPool,
  PolicyService,
} from '../activities/dependencies.js';
import { createPolicyRecords } from '../activities/policy/policy-records.js';
import { createEnvironmentFactory } from '../environments/factory.js';
import type { ExactEnvironment } from '../environments/environment.js';
import { isInProcess, isRemote, observationRoles } from '../environments/registry.js';
import { bytesOf } from '../platform/size.js';
import type { GenerationService, PolicyReading } from '../generation/generation-service.js';
import { createReplicas } from '../generation/replicas/replicas.js';
import { createVllmControl } from '../generation/vllm/control.js';
import { createVllmService } from '../generation/vllm/vllm-service.js';
import type { WeightControl } from '../generation/weight-control.js';
import { toMs } from '../model/workflow-safe/durations.js';
import type { Allowance } from '../platform/waits/allowance.js';
import { createAllowance } from '../platform/waits/allowance.js';
import { readSecret } from '../platform/secrets.js';
import type { OpenStore, TrajectoryStore } from '../trajectories/trajectory-store.js';
import type { Config } from './config.js';
import type { GenerationServiceSettings } from './generation-settings.js';
import { memoryOf } from './config.js';
import { openStore } from './open-store.js';
import { environmentQueue, isLimited, limitOf, ownQueue } from './queues.js';
import { createStepPlaces, unlimited } from './step-places.js';

/** The parts that temporal.yaml describes. Adapters are chosen only here. */
export interface Parts {
  store: TrajectoryStore;
  opened: Pick<OpenStore, 'ready' | 'ids' | 'keySecret'>;
  pools: ReadonlyMap<string, GenerationPool>;
  environments: ReadonlyMap<string, DeployedEnvironment>;
  /** By service. */
  policies: ReadonlyMap<string, PolicyParts>;
  /** The allowance for large answers of environments. */
  answers: Allowance;
  /** The allowance for the folds of turns in progress. */
  folds: Allowance;
  close(): Promise<void>;
}

export type PolicyParts = Pick<PolicyService, 'records' | 'controls'>;

interface PartsContext {
  env: NodeJS.ProcessEnv;
  log: Logger;
}

export async function createParts(config: Config, { env, log }: PartsContext): Promise<Parts> {
  const memory = memoryOf(config);
  // Two allowances: an activity that holds an environment's answer waits for an engine, and must not wait for itself.
  const answers = createAllowance(memory.answer_bytes);
  const replies = createAllowance(memory.reply_bytes);
  const opened = openStore(config, {
    env,
    max_cached_bytes: memory.cached_fold_bytes,
    max_request_bytes: memory.request_bytes,
  });
  const { store } = opened;
  const services = Object.entries(config.generation);
  const policies = new Map(
    services.map(([name, settings]): [string, PolicyParts] => {
      const records = createPolicyRecords({ facts: store.facts, service: name });
      return [name, { records, controls: createControls(name, { settings, env, replies }) }];
    }),
  );
  const pools = new Map(
    services.map(([name, settings]) => {
      const policy = policies.get(name)?.records;
      const context = { env, log, replies, ...(policy !== undefined && { policy }) };
      return [name, createPool({ name, settings, config }, context)];
    }),
  );
  const factory = createEnvironmentFactory({
    settings: config.environments,
    env,
    answers,
    report: (message, environment) => {
      log.info(environment === null ? {} : { environment }, message);
    },
  });
  const environments = new Map<string, DeployedEnvironment>();
  for (const task of Object.keys(config.environments))
    environments.set(task, deployedOf(task, { environment: await factory.create(task), config }));
  return {
    store,
    opened,
    pools,
    policies,
    environments,
    answers,
    folds: createAllowance(memory.played_fold_bytes),
    close: async () => {
      const controls = [...policies.values()].flatMap((policy) => policy.controls);
      const open = [opened, factory, ...pools.values(), ...controls];
      await Promise.all(open.map((one) => one.close()));
    },
  };
}

function deployedOf(
  task: string,
  { environment, config }: { environment: ExactEnvironment; config: Config },
): DeployedEnvironment {
  const settings = config.environments[task];
  if (settings === undefined) throw new Error(`expected settings of environment ${task}, got none`);
  const isHere = isInProcess(settings);
  const steps = config.worker.roles.includes('environment');
  const mayBeAwaited =
    environment.agent === undefined
      ? steps && environment.program === undefined && ownQueue(settings) === undefined
      : !isLimited(settings);
  const most = Math.min(memoryOf(config).steps, limitOf(settings) ?? Infinity);
  return {
    environment,
    task_queue: environmentQueue(config, task),
    plays_on: isHere || mayBeAwaited,
    inPlace: isHere ? unlimited : createStepPlaces(most),
    roles: observationRoles(settings),
    is_asked: steps || isRemote(settings),
  };
}

/** The replicas of one service. */
export function createPool(
  { name, settings, config }: { name: string; settings: GenerationServiceSettings; config: Config },
  { env, log, replies, policy }: PartsContext & { replies: Allowance; policy?: PolicyReading },
): GenerationPool & { close: () => Promise<void> } {
  const api_key = apiKeyOf(name, { settings, env });
  const create = (url: string): GenerationService =>
    createVllmService({
      base_url: url,
      wire: settings.wire,
      api_key,
      first_token_timeout_ms: toMs(settings.first_token_timeout),
      idle_timeout_ms: toMs(settings.idle_timeout),
      role_map: settings.role_map,
      ...(settings.max_answer !== undefined && { max_answer_bytes: bytesOf(settings.max_answer) }),
      answers: replies,
    });
  const replicas = createReplicas(settings.base_urls.map(create), {
    max_concurrent: settings.max_concurrent ?? evenShare(config, settings),
    ...(policy !== undefined && { policy }),
    report: ({ replica, set_aside, why }) => {
      if (set_aside) log.warn({ service: name, replica, why }, 'replica set aside');
      else log.info({ service: name, replica, why }, 'replica is back');
    },
  });
  const { model, special_tokens, api_key_env, images, role_map } = settings;
  return { ...replicas, model, special_tokens, api_key_env, images, role_map };
}

/** One for each replica. */
export function createControls(
  name: string,
  {
    settings: { base_urls, control, model, ...settings },
    env,
    replies,
  }: { settings: GenerationServiceSettings; env: NodeJS.ProcessEnv; replies: Allowance },
): WeightControl[] {
  const { urls, api_key_env } = control;
  const api_key = apiKeyOf(name, { settings, env });
  const control_api_key = apiKeyOf(`${name}.control`, { settings: { api_key_env }, env });
  return base_urls.map((url, i) =>
    createVllmControl({
      replica: url,
      control_url: urls?.[i] ?? null,
      api_key,
      control_api_key,
      model,
      answers: replies,
    }),
  );
}

/**
 * Together the replicas take everything that the worker runs, so a single one never has a line before it. If one fails,
 * the others get no more than their share. The rest waits here, where it is measured, instead of in an overloaded
 * engine.
 */
const evenShare = (config: Config, { base_urls }: GenerationServiceSettings): number =>
  Math.ceil(memoryOf(config).generations / base_urls.length);

const apiKeyOf = (
  name: string,
  {
    settings,
    env,
  }: { settings: Pick<GenerationServiceSettings, 'api_key_env'>; env: NodeJS.ProcessEnv },
): string | null =>
  settings.api_key_env === null
    ? null
    : readSecret(settings.api_key_env, {
        env: (variable) => env[variable],
        setting: `generation.${name}.api_key_env`,
      });
