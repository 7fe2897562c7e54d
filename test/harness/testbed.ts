import { mkdir } from 'node:fs/promises';
import path from 'node:path';
import type { SimulatorOptions } from '../../simulator/server.js';
import { startSimulator } from '../../simulator/server.js';
import type { ScriptedEngine } from '../servers/scripted-engine.js';
import { createScriptedEngine } from '../servers/scripted-engine.js';
import type { ScriptedEnvironment } from '../servers/scripted-environment.js';
import { startScriptedEnvironment } from '../servers/scripted-environment.js';
import type { BatchToStart } from '../../lab/bed/batch.js';
import type { TestServer } from '../../lab/bed/server.js';
import { startTestServer } from '../../lab/bed/server.js';
import { makeTemporaryDirectory } from '../../lab/bed/temporary-directory.js';
import type { WorkerConfig, WorkerProcess } from '../../lab/bed/worker.js';
import { startWorkerProcess } from '../../lab/bed/worker.js';

/** The parts of an end-to-end test file: one Temporal server, one scripted engine and environment, and workers. */
export interface Testbed {
  /** Temporary; logs, settings, the store. */
  directory: string;
  store_root: string;
  /** Inputs folder of the workers; empty. */
  inputs_dir: string;
  server: TestServer;
  engine: ScriptedEngine;
  environment: ScriptedEnvironment;
  /** Starts a simulator for each of these services, ended by `end`; returns the services of a worker. */
  simulate: (services: Record<string, SimulatorOptions['settings']>) => Promise<Services>;
  /** Ended by `end`, too. */
  startWorker: (options: TestbedWorker) => Promise<WorkerProcess>;
  /** The input of `startBatch` and `startSingleRollout`. */
  batch: (batch_id: string, task_queue: string) => BatchToStart;
  /** Ends everything, in reverse order; throws the first error after it has tried all. */
  end: () => Promise<void>;
}

type Services = NonNullable<WorkerConfig['generation']>;

/** Environments of a worker that plays puzzles. */
export const PUZZLES: WorkerConfig['environments'] = { sliding_puzzle: { kind: 'sliding_puzzle' } };

export interface TestbedWorker {
  /** Also the name of its files. */
  task_queue: string;
  generation: Services;
  environments: WorkerConfig['environments'];
  worker?: WorkerConfig['worker'];
  /** Name, for several workers that share a task queue. */
  name?: string;
  /** Variables beside those of this process. */
  env?: Record<string, string>;
  open_files?: number;
}

/** If a part does not start, all started ones are ended. */
export async function startTestbed(
  name: string,
  /** A store whose journals are not files; its results are below `root`. */
  storeOf: (root: string) => WorkerConfig['store'] = (root) => ({ kind: 'file', root }),
): Promise<Testbed> {
  const endings: (() => Promise<void>)[] = [];
  const end = async (): Promise<void> => {
    const problems: unknown[] = [];
    for (const ending of endings.splice(0).reverse()) {
      await ending().catch((error: unknown) => problems.push(error));
    }
    if (problems.length > 0) throw problems[0];
  };
  try {
    const directory = await makeTemporaryDirectory(name);
    endings.push(directory.remove);
    const store_root = path.join(directory.path, 'store');
    const inputs_dir = path.join(directory.path, 'inputs');
    await mkdir(inputs_dir);
    const engine = createScriptedEngine();
    endings.push(engine.close);
    const environment = await startScriptedEnvironment();
    endings.push(environment.close);
    const server = await startTestServer({ directory: directory.path });
    endings.push(server.stop);
    return {
      directory: directory.path,
      store_root,
      inputs_dir,
      server,
      engine,
      environment,
      simulate: async (services) => {
        const generation: Services = {};
        for (const [name, settings] of Object.entries(services)) {
          const simulator = await startSimulator({ settings, port: 0 });
          endings.push(() => simulator.close());
          generation[name] = { kind: 'vllm', base_urls: [`${simulator.url}/v1`] };
        }
        return generation;
      },
      startWorker: async ({
        task_queue,
        name: file = task_queue,
        env = {},
        open_files,
        ...parts
      }) => {
        const { address, namespace } = server;
        const worker = await startWorkerProcess({
          directory: directory.path,
          name: file,
          env,
          ...(open_files !== undefined && { open_files }),
          config: {
            temporal: { address, namespace, task_queue },
            store: storeOf(store_root),
            inputs_dir,
            ...parts,
          },
        });
        endings.push(worker.stop);
        return worker;
      },
      batch: (batch_id, task_queue) => ({ server, store_root, batch_id, task_queue }),
      end,
    };
  } catch (error) {
    await end();
    throw error;
  }
}
