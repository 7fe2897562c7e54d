import { after, before } from 'node:test';
import type { TestServer } from '../../lab/bed/server.js';
import type { Stack } from '../../lab/bed/stack.js';
import { startStack } from '../../lab/bed/stack.js';
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
  let stack: Stack;
  before(async () => {
    stack = await startStack({ name, replicas: 0 });
  });
  after(() => stack.end());
  const nobody = { kind: 'vllm' as const, base_urls: ['http://127.0.0.1:9/v1'] };
  return {
    directory: () => stack.directory,
    server: () => stack.server(),
    config: (change = {}) =>
      stack.settings(task_queue, { generation: { default: nobody }, ...change }),
    refusal: async (worker_name, options) => {
      try {
        const worker = await startWorkerProcess({
          directory: stack.directory,
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
