import { once } from 'node:events';
import { setFlagsFromString } from 'node:v8';
import { Client } from '@temporalio/client';
import { DefaultLogger, Runtime } from '@temporalio/worker';
import type { Logger } from 'pino';
import { dataConverter } from '../activities/contract/data-converter.js';
import { createActivities } from '../activities/index.js';
import { describeError } from '../platform/errors.js';
import type { StoreIds } from '../trajectories/trajectory-store.js';
import { REPORTS_EVERY_S } from '../temporal/pollers.js';
import { orAborted } from '../platform/waits/abort.js';
import { COMPARE_EVERY_MS, compareClocks } from './compare-clocks.js';
import type { Config } from './config.js';
import { RAISE_LIMIT, cutByOpenFiles, memoryOf } from './config.js';
import { connect, keepConnection } from './connect.js';
import { reachDeployed } from './deaths/deployed.js';
import { openGateway } from './gateway.js';
import { keepDeaths } from './deaths/keep.js';
import { askTemporal, createDependencies } from './dependencies.js';
import { keepLooking } from './keep-looking.js';
import { createLog, takeOutputOfOthers } from './log.js';
import { GARBAGE_PERCENT } from './memory.js';
import type { OtherStore } from './one-store.js';
import { findOtherStores, keepOneStore, waitForOneStore, writesResults } from './one-store.js';
import type { Parts } from './parts.js';
import { createParts, probeParts } from './parts.js';
import { foreignPolicy, keepPolicies, reachPolicies } from './policies.js';
import { keepAttributes, knowAttributes } from './search-attributes.js';
import { keepUnstuck } from './stuck.js';
import { createWorkers } from './worker.js';

/**
 * Runs a worker until the signal to end, for which `listen` begins to wait once the deployment's own modules are
 * loaded. Before that, a signal ends the process as usual, whatever code keeps it busy.
 */
export async function runWorker(config: Config, listen: () => AbortSignal): Promise<void> {
  const log = createLog(process.env['LOG_LEVEL'] ?? 'info');
  const giveBack = takeOutputOfOthers(log);
  try {
    installRuntime(log);
    boundMemory(config, log);
    const parts = await createParts(config, { env: process.env, log });
    const signal = listen();
    await runParts(parts, { config, log, signal }).finally(() => parts.close());
  } finally {
    giveBack();
  }
}

async function runParts(parts: Parts, context: Context): Promise<void> {
  const { config, log, signal } = context;
  const generates = config.worker.roles.includes('generation');
  void probeParts(parts, { log, signal, generates });
  const started = await orAborted(startWorkers(parts, context), signal).catch((error: unknown) => {
    if (signal.aborted) return null;
    throw error;
  });
  if (started === null) return;
  const { workers, connected, gateway, keep } = started;
  const { connection, address, namespace } = connected;
  // A gateway alone has no tasks.
  const running =
    workers.length > 0 ? workers.map((worker) => worker.run()) : [once(signal, 'abort')];
  const shutDown = (): void => {
    for (const worker of workers) if (worker.getState() === 'RUNNING') worker.shutdown();
  };
  signal.addEventListener('abort', shutDown);
  const ends = await keep();
  log.info(
    {
      address,
      namespace,
      task_queue: config.temporal.task_queue,
      roles: config.worker.roles,
      ...(gateway !== null && { gateway: gateway.base_url }),
    },
    'worker started',
  );
  try {
    await Promise.all(running);
  } finally {
    for (const end of ends) end();
    // If one fails, its reason counts. The others are ended too, because a connection in use cannot be closed.
    shutDown();
    await Promise.allSettled(running);
    await gateway?.close();
    await connection.close();
  }
  log.info('worker stopped');
}

interface Context {
  config: Config;
  log: Logger;
  signal: AbortSignal;
}

/** null if the wait for a server was ended. `gateway`: null: no programs run here. */
async function startWorkers(parts: Parts, { config, log, signal }: Context) {
  const say = (line: string): void => {
    log.warn(line);
  };
  await parts.opened.ready({ say, signal });
  const connected = await connect(config, { log, signal });
  if (connected === null) return null;
  const { connection, namespace } = connected;
  const client = new Client({ connection, namespace, dataConverter });
  const { run, deployed } = await reachDeployed(client, config);
  // Before all else: what this worker has left behind in its last life waits for it.
  const endDeaths = keepDeaths(deployed, log);
  const upserts = config.worker.roles.includes('workflow');
  const attributes = await knowAttributes(connection, { namespace, upserts, log });
  await compareClocks(config, { log });
  const ids = await idsOf(parts, { config, log });
  const lookForOthers = async (): Promise<OtherStore[]> => {
    const own = { ...ids, name: parts.store.name };
    if (own.store === null) return [];
    return await findOtherStores(client.workflowService, { config, namespace, own });
  };
  await waitForOneStore(lookForOthers, { log, signal });
  if (signal.aborted) {
    endDeaths();
    await connection.close();
    return null;
  }
  const { task_queue } = config.temporal;
  const policies = reachPolicies(client, { task_queue, log });
  for (const service of Object.keys(config.generation)) {
    const foreign = await foreignPolicy(client, { service, task_queue });
    if (foreign !== null) throw new Error(foreign);
  }
  const temporal = askTemporal(client, { policies, log });
  const gateway = await openGateway(config, { ...parts, env: process.env });
  const { unlisted } = attributes;
  const seen = deployed.reports !== null;
  const activities = createActivities(
    createDependencies(config, { parts, temporal, gateway, unlisted, seen }),
  );
  const workers = await createWorkers({ config, connected, activities, ids, run });
  const keep = async () => [
    endDeaths,
    await keepAttributes(connection, { namespace, attributes, log }),
    keepPolicies(parts, { workflows: policies, log }),
    // Only workflows upsert search attributes.
    ...(upserts ? [keepUnstuck(client, { task_queue, log, attributes })] : []),
    keepLooking(() => compareClocks(config, { log }), { every_ms: COMPARE_EVERY_MS }),
    keepOneStore(lookForOthers, log),
    keepConnection(connected, { workers, log }),
  ];
  return { connected, gateway, workers, keep };
}

/** A store that cannot be written now does not keep a worker from starting: rollouts say that they wait for it. */
async function idsOf(
  { opened, store }: Pick<Parts, 'opened' | 'store'>,
  { config, log }: { config: Config; log: Logger },
): Promise<StoreIds> {
  try {
    return await opened.ids({ make: true, results: writesResults(config) });
  } catch (error) {
    log.warn(`the id of store ${store.name} is not known: ${describeError(error)}`);
    return { store: null, results: null };
  }
}

/** Before threads start: the setting also depends on how much garbage waits to be collected. */
function boundMemory(config: Config, log: Logger): void {
  const { memory, max_generations } = config.worker;
  const plan = memoryOf(config);
  // V8 reads it at each collection, in every thread. By default the heap grows to four times its live size.
  setFlagsFromString(`--heap-growing-percent=${GARBAGE_PERCENT}`);
  log.info({ memory, ...plan }, 'what fits into worker.memory');
  const cut = cutByOpenFiles(config);
  if (cut !== null) log.warn(`${cut}; ${RAISE_LIMIT}`);
  else if (plan.generations < max_generations) {
    const text = `worker.max_generations ${max_generations} does not fit worker.memory ${memory}: at most ${plan.generations} generations at once`;
    log.warn(text);
  }
}

function installRuntime(log: Logger): void {
  Runtime.install({
    // The command handles signals, also while it waits for a server.
    shutdownSignals: [],
    workerHeartbeatInterval: REPORTS_EVERY_S * 1000,
    // The SDK's native part writes coloured text of its own otherwise.
    telemetryOptions: { logging: { forward: {} } },
    logger: new DefaultLogger('WARN', ({ level, message, meta }) => {
      if (level === 'ERROR') log.error(meta ?? {}, message);
      else log.warn(meta ?? {}, message);
    }),
  });
}
