import type { Logger } from 'pino';
import type { DeployedEnvironment, GenerationPool } from '../activities/dependencies.js';
import { createPolicyRecords } from '../activities/policy/policy-records.js';
import { createEnvironmentFactory } from '../environments/factory.js';
import type { ExactEnvironment } from '../environments/environment.js';
import { isInProcess, isRemote, observationRoles } from '../environments/registry.js';
import { bytesOf } from '../platform/size.js';
import { ADAPTERS } from '../generation/adapters.js';
import type { GenerationService, PolicyReading } from '../generation/generation-service.js';
import { createReplicas } from '../generation/replicas/replicas.js';
import { toMs } from '../model/workflow-safe/durations.js';
import { allowedBy } from '../platform/http/allowed.js';
import { type Allowance, createAllowance } from '../platform/waits/allowance.js';
import type { PolicyParts, ServiceContext } from './controls.js';
import { apiKeyOf, createPolicyParts } from './controls.js';
import type { Config } from './config.js';
import type { GenerationServiceSettings } from './generation-settings.js';
import { memoryOf } from './config.js';
import { openStore } from './open-store.js';
import { environmentQueue, isLimited, limitOf, ownQueue } from './queues.js';
import { createSharedLine } from '../generation/replicas/shares.js';
import { Fault } from '../model/faults.js';
import { withDeadline } from '../platform/waits/abort.js';
import { describeError } from '../platform/errors.js';

export type Parts = Awaited<ReturnType<typeof createParts>>;

interface PartsContext {
  env: NodeJS.ProcessEnv;
  log: Logger;
}

/** The parts that temporal.yaml describes. Adapters are chosen only here. */
export async function createParts(config: Config, { env, log }: PartsContext) {
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
      const records = createPolicyRecords(name, { facts: store.facts });
      return [name, createPolicyParts(name, { settings, env, replies, records })];
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
  for (const [task, settings] of Object.entries(config.environments)) {
    const environment = await factory.create(task);
    environments.set(task, deployedOf(task, { environment, settings, config }));
  }
  return {
    store,
    opened,
    pools,
    policies,
    environments,
    answers,
    folds: createAllowance(memory.played_fold_bytes),
    close: async (): Promise<void> => {
      const open = [opened, factory, ...pools.values(), ...policies.values()];
      await Promise.all(open.map((one) => one.close()));
    },
  };
}

interface Deployed {
  environment: ExactEnvironment;
  settings: Config['environments'][string];
  config: Config;
}

function deployedOf(
  task: string,
  { environment, settings, config }: Deployed,
): DeployedEnvironment {
  const isHere = isInProcess(settings);
  const steps = config.worker.roles.includes('environment');
  const mayBeAwaited =
    environment.program === undefined
      ? steps && ownQueue(settings) === undefined
      : !environment.program.rules.asks_policy && !isLimited(settings);
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

/** How replicas of a service are asked to sample, each by its URL. */
export function servicesOf(
  name: string,
  { settings, env, replies }: ServiceContext,
): (url: string) => GenerationService {
  const api_key = apiKeyOf(name, { settings, env });
  const { lookupFor } = allowedBy(settings.allow, settings.base_urls);
  return (url) =>
    ADAPTERS[settings.kind].service({
      base_url: url,
      lookup: lookupFor(url),
      wire: settings.wire,
      api_key,
      first_token_timeout_ms: toMs(settings.first_token_timeout),
      idle_timeout_ms: toMs(settings.idle_timeout),
      role_map: settings.role_map,
      ...(settings.max_answer !== undefined && { max_answer_bytes: bytesOf(settings.max_answer) }),
      answers: replies,
    });
}

export function createPool(
  { name, settings, config }: { name: string; settings: GenerationServiceSettings; config: Config },
  { env, log, replies, policy }: PartsContext & { replies: Allowance; policy?: PolicyReading },
): GenerationPool & { close: () => Promise<void> } {
  const allowed = allowedBy(settings.allow, settings.base_urls);
  const create = servicesOf(name, { settings, env, replies });
  const replicas = createReplicas(settings.base_urls.map(create), {
    max_concurrent: settings.max_concurrent ?? evenShare(config),
    ...(policy !== undefined && { policy }),
    connect: (url) => {
      const refusal = allowed.refusal(url);
      if (refusal === null) return create(url);
      log.warn(
        { service: name, replica: url },
        `an engine has joined that is not allowed: ${refusal}`,
      );
      return null;
    },
    report: ({ replica, set_aside, why }) => {
      if (set_aside) log.warn({ service: name, replica, why }, 'replica set aside');
      else log.info({ service: name, replica, why }, 'replica is back');
    },
  });
  const { model, special_tokens, api_key_env, images, role_map } = settings;
  return { ...replicas, model, special_tokens, api_key_env, images, role_map };
}

/**
 * Together the replicas take all that the worker runs, so a single one never has a line before it. If one fails, the
 * others get no more than their share. The rest waits here, where it is measured, and not in an engine.
 */
function evenShare(config: Config): (replicas: number) => number {
  const { generations } = memoryOf(config);
  return (replicas) => Math.ceil(generations / Math.max(1, replicas));
}

/** The places at an environment, for this process. Batches and streams share them as they share those at an engine. */
export function createStepPlaces(most: number): DeployedEnvironment['inPlace'] {
  let taken = 0;
  const line = createSharedLine(() => (taken < most ? (taken += 1) : null));
  return async ({ sharer, session_id, signal }, run) => {
    await line.join({ session_id, sharer }, signal);
    try {
      return await run();
    } finally {
      taken -= 1;
      line.givesBack(sharer);
    }
  };
}

/** For steps in this process, of which it plays one at a time anyway. */
const unlimited: DeployedEnvironment['inPlace'] = (_, run) => run();

interface Probed extends Pick<Parts, 'environments'> {
  pools: ReadonlyMap<string, GenerationPool>;
}

const PROBE_MS = 30_000;

/** Logs what answers. Nothing waits for the result: batches ask again when they are planned. */
export async function probeParts(
  { environments, pools }: Probed,
  {
    log,
    signal,
    generates,
  }: { log: Pick<Logger, 'info' | 'warn'>; signal: AbortSignal; generates: boolean },
): Promise<void> {
  const probe = async ({ is_here = false, ...named }: Of, ask: Ask) => {
    const what = 'service' in named ? 'generation service' : 'environment';
    try {
      await withDeadline(signal, { ms: PROBE_MS, run: async (bounded) => ask(bounded) });
      log.info(named, `the ${what} answers`);
    } catch (error) {
      // A rejection counts as an answer.
      const isThere = error instanceof Fault && REFUSALS.has(error.type) && !is_here;
      if (signal.aborted || isThere) return;
      log.warn(named, `the ${what} is away: ${describeError(error)}`);
    }
  };
  await Promise.all([
    ...[...environments].map(async ([name, { environment, is_asked }]) => {
      if (!is_asked || environment.health === undefined) return;
      const is_here = environment.program?.outlives === false;
      await probe({ environment: name, is_here }, (asked) => environment.health?.(asked));
    }),
    ...[...pools].map(async ([name, pool]) => {
      if (generates) await probe({ service: name }, (asked) => pool.describe(asked));
    }),
  ]);
}

/** `is_here`: this worker starts its programs, so that a rejection is of its settings. */
type Of = ({ environment: string } | { service: string }) & { is_here?: boolean };
type Ask = (signal: AbortSignal) => Promise<unknown> | undefined;

const REFUSALS = new Set<string>(['EnvironmentRejected', 'GenerationRejected']);
