import { after, before } from 'node:test';
import type { TestServer } from '../../lab/bed/server.js';
import { startTestServer } from '../../lab/bed/server.js';
import type { TemporaryDirectory } from '../../lab/bed/temporary-directory.js';
import { makeTemporaryDirectory } from '../../lab/bed/temporary-directory.js';
import type { WorkerConfig, WorkerOptions } from '../../lab/bed/worker.js';
import { startWorkerProcess } from '../../lab/bed/worker.js';

export interface WorkerBed {
  /** Its path. */
  directory: () => string;
  server: () => TestServer;
  /** One engine that nobody serves, and sliding puzzles. */
  config: (change?: object) => WorkerConfig;
  /** Why the worker does not start; throws if it does. */
  refusal: (
    name: string,
    options: Pick<WorkerOptions, 'config' | 'project_root' | 'env'>,
  ) => Promise<string>;
}

/** For tests of how workers start: a server and a folder for those of one `describe`. */
export function workerBed(name: string, task_queue: string): WorkerBed {
  let directory: TemporaryDirectory;
  let server: TestServer;
  before(async () => {
    directory = await makeTemporaryDirectory(name);
    server = await startTestServer({ directory: directory.path });
  });
  after(async () => {
    await server.stop();
    await directory.remove();
  });
  return {
    directory: () => directory.path,
    server: () => server,
    config: (change = {}) => ({
      temporal: { address: server.address, namespace: server.namespace, task_queue },
      store: { kind: 'file', root: directory.path },
      inputs_dir: directory.path,
      generation: { default: { kind: 'vllm', base_urls: ['http://127.0.0.1:9/v1'] } },
      environments: { sliding_puzzle: { kind: 'sliding_puzzle' } },
      ...change,
    }),
    refusal: async (worker_name, options) => {
      try {
        const worker = await startWorkerProcess({
          directory: directory.path,
          name: worker_name,
          ...options,
        });
        await worker.stop();
      } catch (error) {
        return String(error);
      }
      throw new Error('the worker started');
    },
  };
}
