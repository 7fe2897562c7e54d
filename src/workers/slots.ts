import type { Config } from './config.js';
import type { Role } from './worker-settings.js';
import { memoryOf } from './config.js';
import { commonEnvironmentQueue, environmentQueue, generationQueue, limitOf } from './queues.js';

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

/** The smallest limit of the environments on a queue, since they share its slots. */
function stepsAtOnce(config: Config, queue: string): number {
  const limits = Object.entries(config.environments)
    .filter(([task]) => environmentQueue(config, task) === queue)
    .map(([, settings]) => limitOf(settings))
    .filter((limit) => limit !== undefined);
  return Math.min(memoryOf(config).steps, ...limits);
}
