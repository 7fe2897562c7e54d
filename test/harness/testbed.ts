import { mkdir } from 'node:fs/promises';
import path from 'node:path';
import type { SimulatorOptions } from '../../simulator/server.js';
import { startSimulator } from '../../simulator/server.js';
import type { TestServer } from '../../lab/bed/server.js';
import type { Stack, StackOptions } from '../../lab/bed/stack.js';
import { startStack } from '../../lab/bed/stack.js';
import type { WorkerConfig } from '../../lab/bed/worker.js';
import type { ScriptedEngine } from '../servers/scripted-engine.js';
import { createScriptedEngine } from '../servers/scripted-engine.js';
import type { ScriptedEnvironment } from '../servers/scripted-environment.js';
import { startScriptedEnvironment } from '../servers/scripted-environment.js';

/** The parts of an end-to-end test file: a stack with one scripted engine and environment. */
export interface Testbed extends Pick<
  Stack,
  'directory' | 'store_root' | 'startWorker' | 'batch' | 'end'
> {
  /** Inputs folder of the workers; empty. */
  inputs_dir: string;
  server: TestServer;
  engine: ScriptedEngine;
  environment: ScriptedEnvironment;
  /** Starts a simulator for each of these services, ended by `end`; returns the services of a worker. */
  simulate: (services: Record<string, SimulatorOptions['settings']>) => Promise<Services>;
}

type Services = NonNullable<WorkerConfig['generation']>;

/** If a part does not start, all started ones are ended. */
export async function startTestbed(
  name: string,
  {
    storeOf = (root) => ({ kind: 'file', root }),
    ...serves
  }: Pick<StackOptions, 'own_server' | 'in_memory'> & {
    /** A store whose journals are not files; its results are below `root`. */
    storeOf?: (root: string) => WorkerConfig['store'];
  } = {},
): Promise<Testbed> {
  const stack = await startStack({ name, replicas: 0, ...serves });
  const { directory, store_root, batch, ending, end } = stack;
  try {
    const inputs_dir = path.join(directory, 'inputs');
    await mkdir(inputs_dir);
    const engine = createScriptedEngine();
    ending(engine.close);
    const environment = await startScriptedEnvironment();
    ending(environment.close);
    const server = stack.server();
    return {
      ...{ directory, store_root, inputs_dir, server, engine, environment, batch, end },
      simulate: async (services) => {
        const generation: Services = {};
        for (const [name, settings] of Object.entries(services)) {
          const simulator = await startSimulator({ settings, port: 0 });
          ending(() => simulator.close());
          generation[name] = { kind: 'vllm', base_urls: [`${simulator.url}/v1`] };
        }
        return generation;
      },
      startWorker: (worker) =>
        stack.startWorker({ store: storeOf(store_root), inputs_dir, ...worker }),
    };
  } catch (error) {
    await end();
    throw error;
  }
}
