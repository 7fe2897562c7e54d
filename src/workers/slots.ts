import type { Config } from './config.js';
import type { Role } from './worker-settings.js';
import { memoryOf } from './config.js';
import { commonEnvironmentQueue, environmentQueue, generationQueue, playersOn } from './queues.js';

/** A task queue from which this process takes activities, and how many at once. */
export interface OwnQueue {
  role: Exclude<Role, 'gateway'>;
  name: string;
  slots: number;
}

/** A gateway alone has none: not Temporal asks it, but programs. */
export function ownQueues(config: Config): OwnQueue[] {
  const { others, plays } = memoryOf(config);
  const ofEnvironments = new Set([
    commonEnvironmentQueue(config),
    ...Object.keys(config.environments).map((task) => environmentQueue(config, task)),
  ]);
  const queues: OwnQueue[] = [
    { role: 'workflow', name: config.temporal.task_queue, slots: others },
    { role: 'generation', name: generationQueue(config), slots: plays },
    ...[...ofEnvironments].map((name): OwnQueue => ({
      role: 'environment',
      name,
      slots: stepsAtOnce(config, name),
    })),
  ];
  return queues.filter(({ role }) => config.worker.roles.includes(role));
}

export const slotsOf = (config: Config): ReadonlyMap<string, number> =>
  new Map(ownQueues(config).map(({ name, slots }) => [name, slots]));

/** A step waits for its environment's own place (parts.ts); a whole rollout has a slot, of those of its kind. */
function stepsAtOnce(config: Config, queue: string): number {
  const limits = playersOn(config)
    .filter((player) => player.queue === queue)
    .map(({ limit }) => limit ?? Infinity);
  return Math.min(memoryOf(config).steps, ...limits);
}
