import { readFile, readdir, rm } from 'node:fs/promises';
import path from 'node:path';
import { lastLines } from '../../src/platform/process/run-command.js';
import type { BatchToStart } from './batch.js';
import type { Endings } from './endings.js';
import { createEndings } from './endings.js';
import type { Engine, EngineOptions } from './engine.js';
import { startEngine } from './engine.js';
import type { OwnServer, OwnServerOptions, TestServer } from './server.js';
import { PROJECT_ROOT, startOwnServer, startTestServer } from './server.js';
import type { SimulatorProcess } from './simulator.js';
import { makeTemporaryDirectory } from './temporary-directory.js';
import type { WorkerConfig, WorkerOptions, WorkerProcess } from './worker.js';
import { startWorkerProcess } from './worker.js';

/** A Temporal server, engines, and a folder for what they write. Workers join with its settings. */
export interface Stack {
  directory: string;
  /** The root of the store of workers with its settings. */
  store_root: string;
  server: () => TestServer;
  /** Throws if it is shared. */
  ownServer: () => OwnServer;
  /** kill -9. */
  killServer: () => Promise<void>;
  /** On the same ports, with the same database file. */
  startServer: () => Promise<void>;
  /** Deletes the database of a killed server. */
  loseDatabase: () => Promise<void>;
  engines: Engine[];
  /** The first one as it runs. */
  simulator: () => SimulatorProcess;
  /** Another one, which no settings name yet. It is among `engines` from here on. */
  addEngine: (change?: EngineOptions['settings']) => Promise<Engine>;
  /** temporal.yaml of a worker: its journals are in the folder, its samples, too; it plays sliding puzzles. */
  settings: (task_queue: string, change?: Partial<WorkerConfig>) => WorkerConfig;
  /** Ended with all else. */
  startWorker: (worker: StackWorker) => Promise<WorkerProcess>;
  /** The input of `startBatch` and `startSingleRollout`. */
  batch: (batch_id: string, task_queue: string) => BatchToStart;
  /** Does something; where that fails, prints what the processes said last. */
  observed: (run: () => Promise<void>) => Promise<void>;
  /** Adds the end of what else belongs to it, which comes before that of all that is there. */
  ending: Endings['add'];
  /** Ends everything, in reverse order. */
  end: () => Promise<void>;
}

export interface StackOptions extends Pick<OwnServerOptions, 'shares' | 'metrics_port'> {
  /** Its folder's name. */
  name: string;
  /** Whether its files are on the project's disk; absent: in the folder for temporary files, which may be memory. */
  on_disk?: boolean;
  /** A Temporal server that no other file uses; it may be killed. */
  own_server?: boolean;
  /** Whether that has no database file. */
  in_memory?: boolean;
  /** How many engines; the first one writes into the stack's folder itself. */
  replicas?: number;
  simulator?: EngineOptions['settings'];
  logs?: EngineOptions['logs'];
  /** Each engine may be cut off from the workers. */
  has_networks?: boolean;
}

/** What its settings have in place of the stack's, and how its process is started. */
export interface StackWorker
  extends Partial<WorkerConfig>, Pick<WorkerOptions, 'env' | 'open_files' | 'project_root'> {
  task_queue: string;
  /** The name of its files; absent: its task queue. */
  name?: string;
}

export const PUZZLES: NonNullable<WorkerConfig['environments']> = {
  sliding_puzzle: { kind: 'sliding_puzzle' },
};

/** If a part does not start, all started ones are ended. */
export async function startStack({
  name,
  on_disk = false,
  own_server = false,
  in_memory = false,
  replicas = 1,
  simulator = {},
  logs = true,
  has_networks: has_network = false,
  ...serves
}: StackOptions): Promise<Stack> {
  const { path: directory, remove } = await makeTemporaryDirectory(name, { on_disk });
  const { add: ending, end } = createEndings();
  ending(remove);
  const store_root = path.join(directory, 'trajectories');
  const db_file = in_memory ? null : path.join(directory, 'database', 'temporal.db');
  const start = (from: Pick<OwnServerOptions, 'ports'>): Promise<OwnServer> =>
    startOwnServer({ directory, db_file, ...serves, ...from });
  try {
    let server: TestServer | OwnServer = await (own_server
      ? start({})
      : startTestServer({ directory }));
    ending(() => server.stop());
    const ownServer = (): OwnServer => {
      if ('pid' in server) return server;
      throw new Error('other files use this Temporal server: ask for own_server');
    };
    const engines: Engine[] = [];
    const addEngine: Stack['addEngine'] = async (change = {}) => {
      const own = engines.length === 0 ? '' : `engine-${engines.length}`;
      const options = { settings: { ...simulator, ...change }, logs, has_network };
      const engine = await startEngine(path.join(directory, own), options);
      engines.push(engine);
      ending(engine.end);
      return engine;
    };
    while (engines.length < replicas) await addEngine();
    const settings: Stack['settings'] = (task_queue, change = {}) => ({
      temporal: { address: server.address, namespace: server.namespace, task_queue },
      store: { kind: 'file', root: store_root },
      inputs_dir: directory,
      generation: { default: servedBy(engines) },
      environments: PUZZLES,
      ...change,
    });
    return {
      directory,
      store_root,
      server: () => server,
      ownServer,
      killServer: async () => {
        process.kill(ownServer().pid, 'SIGKILL');
        await server.stop();
      },
      startServer: async () => {
        server = await start({ ports: ownServer().ports });
      },
      loseDatabase: () => rm(path.join(directory, 'database'), { recursive: true, force: true }),
      engines,
      simulator: () => engines[0]!.process(),
      addEngine,
      settings,
      startWorker: async ({
        task_queue,
        name: file = task_queue,
        env = {},
        project_root = PROJECT_ROOT,
        open_files,
        ...change
      }) => {
        const worker = await startWorkerProcess({
          ...{ directory, name: file, env, project_root },
          ...(open_files !== undefined && { open_files }),
          config: settings(task_queue, change),
        });
        ending(worker.stop);
        return worker;
      },
      batch: (batch_id, task_queue) => ({ server, store_root, batch_id, task_queue }),
      observed: async (run) => {
        try {
          await run();
        } catch (error) {
          console.log(await logTails(directory));
          throw error;
        }
      },
      ending,
      end,
    };
  } catch (error) {
    await end();
    throw error;
  }
}

/** A generation service of a worker's settings. */
export const servedBy = (engines: readonly Pick<Engine, 'replica'>[]) => ({
  kind: 'vllm' as const,
  base_urls: engines.map(({ replica }) => replica),
});

async function logTails(directory: string): Promise<string> {
  const names = (await readdir(directory)).filter((name) => name.endsWith('.log'));
  const tails = names.map(async (name) => {
    const text = await readFile(path.join(directory, name), 'utf8');
    return `--- ${name}\n${lastLines(text, 12)}`;
  });
  return (await Promise.all(tails)).join('\n');
}

/** A server of one's own without engines or a database file. Its end is that of its folder, too. */
export async function startLoneServer(name: string): Promise<OwnServer & { directory: string }> {
  const options = { name, own_server: true, in_memory: true, replicas: 0 };
  const { directory, ownServer, end } = await startStack(options);
  return { ...ownServer(), directory, stop: end };
}
