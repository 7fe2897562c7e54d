import type { Config } from './config.js';
import { memoryOf } from './config.js';
import { commonEnvironmentQueue, playersOn, queuesOf } from './queues.js';

/** A gateway alone has none: not Temporal asks it, but programs. */
export function ownQueues(config: Config) {
  const { others, plays } = memoryOf(config);
  const common = { role: 'environment', name: commonEnvironmentQueue(config) } as const;
  const named = new Map([...queuesOf(config), common].map(({ name, role }) => [name, role]));
  const slotsAt = (name: string) =>
    ({ workflow: others, generation: plays, environment: stepsAtOnce(config, name) }) as const;
  return [...named]
    .filter(([, role]) => config.worker.roles.includes(role))
    .map(([name, role]) => ({ role, name, slots: slotsAt(name)[role] }));
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
