import path from 'node:path';
import type { WorkflowHandle } from '@temporalio/client';
import type { Duration } from '@temporalio/common';
import type { z } from 'zod';
import type { BatchProgress } from '../../src/activities/contract.js';
import { PROJECT_ROOT } from '../../src/platform/project-root.js';
import type { BatchRequest } from '../../src/model/batch-request.js';
import type { BatchOutcome } from './batch.js';
import { outcomeOf, startBatch } from './batch.js';
import type { KeptWorker } from './kept-worker.js';
import { keepWorker } from './kept-worker.js';
import type { Stack, StackOptions } from './stack.js';
import { PUZZLES, servedBy, startStack } from './stack.js';
import type { WorkerConfig, WorkerOptions } from './worker.js';

/**
 * A stack of real processes that may be killed and started again: its Temporal server only where it has one of its own,
 * and a worker for each store. A store has its own directory and task queue: one batch id can be played in several, one
 * after the other, and its rows compared.
 */
export interface RecoveryBed extends Omit<Stack, 'startWorker' | 'store_root' | 'batch'> {
  /** `name` where a store has several: of its files. */
  startWorker: (store: string, name?: string) => Promise<KeptWorker>;
  storeRoot: (store: string) => string;
  batch: (store: string, batch_id: string) => RecoveryBatch;
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

export interface RecoveryBedOptions extends StackOptions {
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
  /** The worker's generation service; without a URL, the simulators'. */
  generation?: Partial<NonNullable<WorkerConfig['generation']>[string]>;
}

/** A dead worker is noticed in 2 s; a turn slice of half a second makes several activities of a rollout. */
const WORKER = { heartbeat_timeout: '2s', turn_slice: '500ms' };

export async function startRecoveryBed({
  environments = PUZZLES,
  worker: more = {},
  roles: rolesOf = () => undefined,
  generation = {},
  pipe_log = false,
  store: storeOf = (_, root) => ({ kind: 'file', root }),
  inputs = () => PROJECT_ROOT,
  env = () => ({}),
  ...options
}: RecoveryBedOptions): Promise<RecoveryBed> {
  const stack = await startStack(options);
  const { directory, engines } = stack;
  const storeRoot = (store: string): string => path.join(directory, 'stores', store);
  return {
    ...stack,
    startWorker: async (store, name = `worker-${store}`) => {
      const roles = rolesOf(name);
      const config = stack.settings(store, {
        store: storeOf(store, storeRoot(store)),
        inputs_dir: inputs(name),
        generation: { default: { ...servedBy(engines), ...generation } },
        environments,
        worker: { ...WORKER, ...more, ...(roles && { roles }) },
      });
      const worker = await keepWorker({ directory, config, name, pipe_log, env: env(name) });
      stack.ending(worker.stop);
      return worker;
    },
    storeRoot,
    batch: (store, batch_id) => {
      const store_root = storeRoot(store);
      const handle = (): WorkflowHandle => stack.server().client.workflow.getHandle(batch_id);
      return {
        handle,
        start: async (request, delay) => {
          const place = { server: stack.server(), store_root, task_queue: store, batch_id };
          await startBatch({ ...place, ...(delay !== undefined && { delay }) }, request);
        },
        progress: () => handle().query<BatchProgress>('progress'),
        outcome: (timeout_ms) => outcomeOf(handle(), { store_root, timeout_ms }),
      };
    },
  };
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
