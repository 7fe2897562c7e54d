import type { Config } from './config.js';
import type { Role } from './worker-settings.js';
import { memoryOf } from './config.js';
import { commonEnvironmentQueue, environmentQueue, generationQueue, playersOn } from './queues.js';

/** Activity slots of each of this process's queues. */
export const slotsOf = (config: Config): ReadonlyMap<string, number> =>
  new Map(config.worker.roles.flatMap((role) => slotsOfRole(role, config)));

function slotsOfRole(role: Role, config: Config): [queue: string, slots: number][] {
  const memory = memoryOf(config);
  switch (role) {
    case 'workflow':
      return [[config.temporal.task_queue, memory.others]];
    case 'generation':
      return [[generationQueue(config), memory.plays]];
    case 'gateway':
      return [];
    case 'environment':
      return environmentQueues(config).map((queue) => [queue, stepsAtOnce(config, queue)]);
  }
}

/** Those of activities for environments, each once. */
export const environmentQueues = (config: Config): string[] => [
  ...new Set([
    commonEnvironmentQueue(config),
    ...Object.keys(config.environments).map((task) => environmentQueue(config, task)),
  ]),
];

/** A step waits for its environment's own place (step-places.ts); a whole rollout has a slot, of those of its kind. */
function stepsAtOnce(config: Config, queue: string): number {
  const limits = playersOn(config)
    .filter((player) => player.queue === queue)
    .map(({ limit }) => limit ?? Infinity);
  return Math.min(memoryOf(config).steps, ...limits);
}
