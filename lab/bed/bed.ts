import { readFile, readdir, rm } from 'node:fs/promises';
import path from 'node:path';
import type { WorkflowHandle } from '@temporalio/client';
import { WorkflowFailedError } from '@temporalio/client';
import type { Duration } from '@temporalio/common';
import type { z } from 'zod';
import type { BatchProgress, BatchResult } from '../../src/activities/contract.js';
import { lastLines } from '../../src/platform/process/run-command.js';
import type { BatchRequest } from '../../src/model/batch-request.js';
import type { BatchOutcome } from './batch.js';
import { readRows, startBatch } from './batch.js';
import type { OwnServer, TestServer } from './server.js';
import { PROJECT_ROOT, startOwnServer, startTestServer } from './server.js';
import type { KeptWorker } from './kept-worker.js';
import { keepWorker } from './kept-worker.js';
import type { SimulatorProcess, SimulatorProcessOptions } from './simulator.js';
import { startSimulatorProcess } from './simulator.js';
import { makeTemporaryDirectory } from './temporary-directory.js';
import { within } from './waiting.js';
import type { WorkerConfig, WorkerOptions } from './worker.js';

/**
 * Real processes that may be killed and started again: a Temporal server (of its own only where the file kills it, with
 * a database file), a simulator that logs its requests, and a worker for each store. A store has its own directory and task queue: one batch id can be played in
 * several, one after the other, and its rows compared.
 */
export interface RecoveryBed {
  directory: string;
  server: () => TestServer;
  /** Throws if it is shared. */
  ownServer: () => OwnServer;
  simulator: () => SimulatorProcess;
  /** kill -9. */
  killServer: () => Promise<void>;
  /** Deletes the database of a killed server. */
  deleteDatabase: () => Promise<void>;
  /** On the same ports, with the same database file. */
  startServer: () => Promise<void>;
  /** kill -9. */
  killSimulator: () => Promise<void>;
  /** On the same port. */
  startSimulator: () => Promise<void>;
  /** `name` where a store has several: of its files. */
  startWorker: (store: string, name?: string) => Promise<KeptWorker>;
  storeRoot: (store: string) => string;
  batch: (store: string, batch_id: string) => RecoveryBatch;
  /** Does something; where that fails, prints what the processes said last. */
  observed: (run: () => Promise<void>) => Promise<void>;
  /** Ends everything, in reverse order. */
  end: () => Promise<void>;
}

type Request = z.input<typeof BatchRequest>;

/** One batch id in one store; each call asks the server that runs then. */
export interface RecoveryBatch {
  /** `delay`: until its first workflow task. */
  start: (request: Request, delay?: Duration) => Promise<void>;
  handle: () => WorkflowHandle;
  progress: () => Promise<BatchProgress>;
  outcome: (timeout_ms?: number) => Promise<BatchOutcome>;
}

export interface RecoveryBedOptions {
  name: string;
  /** A Temporal server that no other file uses; it may be killed. */
  own_server?: boolean;
  simulator?: SimulatorProcessOptions['settings'];
  environments?: WorkerConfig['environments'];
  worker?: WorkerConfig['worker'];
  /** The roles of a worker, by its name; absent: all. */
  roles?: (worker: string) => NonNullable<WorkerConfig['worker']>['roles'];
  pipe_log?: WorkerOptions['pipe_log'];
  /** A store whose journals are not files, by name; its results are below `root`. */
  store?: (store: string, root: string) => WorkerConfig['store'];
  /** A worker's folder of samples, by its name; absent: the project's. */
  inputs?: (worker: string) => string;
  /** The environment variables of a worker, by its name, beside this process's. */
  env?: (worker: string) => Record<string, string>;
  /** The worker's generation service; without a URL, the simulator's. */
  generation?: Partial<NonNullable<WorkerConfig['generation']>[string]>;
}

/** For one batch, on a machine that has much else to do. */
const OUTCOME_MS = 300_000;

/** A dead worker is noticed in 2 s; a turn slice of half a second makes several activities of a rollout. */
const WORKER = { heartbeat_timeout: '2s', turn_slice: '500ms' };

export async function startRecoveryBed({
  name,
  own_server = false,
  simulator: settings = {},
  environments = { sliding_puzzle: { kind: 'sliding_puzzle' } },
  worker: more = {},
  roles: rolesOf = () => undefined,
  generation = {},
  pipe_log = false,
  store: storeOf = (_, root) => ({ kind: 'file', root }),
  inputs = () => PROJECT_ROOT,
  env = () => ({}),
}: RecoveryBedOptions): Promise<RecoveryBed> {
  const { path: directory, remove } = await makeTemporaryDirectory(name);
  const db_file = path.join(directory, 'database', 'temporal.db');
  const workers: KeptWorker[] = [];
  let server: TestServer | OwnServer | null = null;
  let simulator: SimulatorProcess | null = null;
  const end = async (): Promise<void> => {
    await Promise.all(workers.map((worker) => worker.stop()));
    await simulator?.stop();
    await server?.stop();
    await remove();
  };
  try {
    server = await (own_server
      ? startOwnServer({ directory, db_file })
      : startTestServer({ directory }));
    simulator = await startSimulatorProcess({ directory, port: 0, settings });
  } catch (error) {
    await end();
    throw error;
  }
  const { port, url } = simulator;
  const storeRoot = (store: string): string => path.join(directory, 'stores', store);
  const currentServer = (): TestServer => server!;
  const ownServer = (): OwnServer => {
    if (server !== null && 'pid' in server) return server;
    throw new Error('other files use this Temporal server: ask for own_server');
  };

  return {
    directory,
    server: currentServer,
    ownServer,
    simulator: () => simulator!,
    killServer: async () => {
      process.kill(ownServer().pid, 'SIGKILL');
      await server!.stop();
    },
    deleteDatabase: () => rm(path.dirname(db_file), { recursive: true }),
    startServer: async () => {
      server = await startOwnServer({ directory, db_file, ports: ownServer().ports });
    },
    killSimulator: async () => {
      await simulator!.kill();
    },
    startSimulator: async () => {
      simulator = await startSimulatorProcess({ directory, port, settings });
    },
    startWorker: async (store, workerName = `worker-${store}`) => {
      const { address, namespace } = server!;
      const roles = rolesOf(workerName);
      const config: WorkerConfig = {
        temporal: { address, namespace, task_queue: store },
        store: storeOf(store, storeRoot(store)),
        inputs_dir: inputs(workerName),
        generation: { default: { kind: 'vllm', base_urls: [`${url}/v1`], ...generation } },
        environments,
        worker: { ...WORKER, ...more, ...(roles && { roles }) },
      };
      const worker = await keepWorker({
        directory,
        config,
        name: workerName,
        pipe_log,
        env: env(workerName),
      });
      workers.push(worker);
      return worker;
    },
    storeRoot,
    batch: (store, batch_id) =>
      openBatch({
        server: currentServer,
        store_root: storeRoot(store),
        task_queue: store,
        batch_id,
      }),
    observed: async (run) => {
      try {
        await run();
      } catch (error) {
        console.log(await logTails(directory));
        throw error;
      }
    },
    end,
  };
}

export function openBatch(place: {
  server: () => TestServer;
  store_root: string;
  batch_id: string;
  task_queue: string;
}): RecoveryBatch {
  const { store_root, batch_id } = place;
  const handle = (): WorkflowHandle => place.server().client.workflow.getHandle(batch_id);
  return {
    handle,
    start: async (request, delay) => {
      const late = delay !== undefined && { delay };
      await startBatch({ ...place, ...late, server: place.server() }, request);
    },
    progress: () => handle().query<BatchProgress>('progress'),
    outcome: async (timeout_ms = OUTCOME_MS) => {
      const what = `the end of batch ${batch_id}`;
      const ended = await within({ what, timeout_ms }, endOf(handle()));
      const rows = (name: string): ReturnType<typeof readRows> =>
        readRows(path.join(store_root, batch_id, name));
      return {
        batch_id,
        ...ended,
        rollouts: await rows('rollouts.jsonl'),
        failures: await rows('failures.jsonl'),
      };
    },
  };
}

async function endOf(handle: WorkflowHandle): Promise<Pick<BatchOutcome, 'result' | 'failure'>> {
  try {
    return { result: (await handle.result()) as BatchResult, failure: null };
  } catch (error) {
    if (!(error instanceof WorkflowFailedError)) throw error;
    const { cause = error } = error;
    return { result: null, failure: { type: cause.name, message: cause.message } };
  }
}

async function logTails(directory: string): Promise<string> {
  const names = (await readdir(directory)).filter((name) => name.endsWith('.log'));
  const tails = names.map(async (name) => {
    const text = await readFile(path.join(directory, name), 'utf8');
    return `--- ${name}\n${lastLines(text, 12)}`;
  });
  return (await Promise.all(tails)).join('\n');
}

/** The first samples of the example, played greedily: a generation that is resumed comes out as it would have. */
export function puzzleBatch({
  samples,
  repeats,
  ...more
}: { samples: number; repeats: number } & Partial<Omit<Request, 'samples'>>): Request {
  return {
    samples: { path: 'examples/sliding-puzzle/samples.jsonl' },
    limit: samples,
    num_repeats: repeats,
    generation: { greedy: true, max_new_tokens: 128 },
    max_rollout_turns: 12,
    rollout_timeout: '10m',
    ...more,
  };
}
