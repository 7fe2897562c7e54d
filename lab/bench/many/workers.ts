import path from 'node:path';
import { pathToFileURL } from 'node:url';
import type { Config } from '../../../src/workers/config.js';
import { cutByOpenFiles, memoryOf } from '../../../src/workers/config.js';
import { outputsRoot } from '../../../src/workers/open-store.js';
import { PROJECT_ROOT } from '../../../src/platform/project-root.js';
import type { WorkerProcess } from '../../bed/worker.js';
import type { Stack } from '../../bed/stack.js';
import { workerConfig } from '../puzzles.js';
import type { ManyOptions } from './phases.js';

/** All of them poll it. */
export const TASK_QUEUE = 'many';

/** With a file beside each in which its loop's delays are. */
export async function startWorkers(
  stack: Stack,
  { workers, memory, turn_slice, heartbeat_timeout, rollouts }: ManyOptions,
): Promise<{ workers: WorkerProcess[]; loops: string[]; outputs: string }> {
  const parsed = workerConfig(stack, { task_queue: TASK_QUEUE, turn_slice, memory });
  // The first turns are held until all rollouts have one.
  const generation = Object.fromEntries(
    Object.entries(parsed.generation).map(([name, service]) => [
      name,
      { ...service, first_token_timeout: '1h', max_concurrent: rollouts },
    ]),
  );
  const worker = { ...parsed.worker, heartbeat_timeout, max_generations: rollouts };
  const config = { ...parsed, generation, worker };
  checkPlaces(config, rollouts / workers);
  const preload = pathToFileURL(
    path.join(PROJECT_ROOT, 'lab', 'bench', 'many', 'loop-delay.mjs'),
  ).href;
  const names = Array.from({ length: workers }, (_, i) => `worker-${i}`);
  const loops = names.map((name) => path.join(stack.directory, `${name}.loop`));
  const running = await Promise.all(
    names.map((name, i) =>
      stack.startWorker({
        ...config,
        ...{ task_queue: TASK_QUEUE, name },
        env: { NODE_OPTIONS: `--import ${preload}`, LOOP_DELAY_FILE: loops[i] ?? '' },
      }),
    ),
  );
  return { workers: running, loops, outputs: outputsRoot(config) };
}

/** All rollouts are in flight before the first turn ends, so each needs a place. */
function checkPlaces(config: Config, rollouts: number): void {
  const { generations, cached_workflows } = memoryOf(config);
  if (Math.min(generations, cached_workflows) >= rollouts) return;
  const why =
    cutByOpenFiles(config) ?? `worker.memory ${config.worker.memory} has no room for more`;
  throw new Error(
    `expected room for ${rollouts} rollouts in each worker, got ${generations} generations and ${cached_workflows} workflows: ${why}`,
  );
}
