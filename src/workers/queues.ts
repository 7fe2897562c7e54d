import type { EnvironmentSettings } from '../environments/registry.js';
import { isInProcess } from '../environments/registry.js';
import { generationQueueOf } from '../model/workflow-safe/queues.js';
import type { TaskQueue } from '../temporal/pollers.js';

/** The names of a deployment's task queues. Workflows, planning and closing use `temporal.task_queue` itself. */

interface Deployed {
  temporal: { task_queue: string };
}
interface WithEnvironments extends Deployed {
  environments: Record<string, EnvironmentSettings>;
}

export const generationQueue = ({ temporal }: Deployed): string =>
  generationQueueOf(temporal.task_queue);

export const commonEnvironmentQueue = ({ temporal }: Deployed): string =>
  `${temporal.task_queue}-environment`;

export function environmentQueue(config: WithEnvironments, task: string): string {
  const settings = config.environments[task];
  if (settings === undefined) return commonEnvironmentQueue(config);
  // A rollout holds its slot as long as its program runs.
  const usual = isAgent(settings)
    ? `${config.temporal.task_queue}-agent`
    : commonEnvironmentQueue(config);
  return ownQueue(settings) ?? usual;
}

/** Whether its rollouts are programs that ask the policy, so that a gateway answers them where they are played. */
export const isAgent = (settings: EnvironmentSettings): boolean =>
  settings.kind === 'agent' || (settings.kind === 'gym_agent' && settings.model_server !== 'own');

export const ownQueue = (settings: EnvironmentSettings): string | undefined =>
  'task_queue' in settings ? settings.task_queue : undefined;

export const isLimited = (settings: EnvironmentSettings): boolean =>
  ownQueue(settings) !== undefined || limitOf(settings) !== undefined;

/** Environments whose rollouts have slots of a queue from beginning to end, with the limit that each names. */
export const playersOn = (
  config: WithEnvironments,
): { task: string; queue: string; limit: number | undefined }[] =>
  Object.entries(config.environments)
    .filter(([, settings]) => isAgent(settings) || settings.kind === 'gym_agent')
    .map(([task, settings]) => ({
      task,
      queue: environmentQueue(config, task),
      limit: limitOf(settings),
    }));

/** The slots of a queue are one number: another one would be another's limit. */
export function* unequalLimits(
  config: WithEnvironments,
): Generator<{ path: string[]; message: string }> {
  const first = new Map<string, { task: string; limit: number | undefined }>();
  for (const { task, queue, limit } of playersOn(config)) {
    const other = first.get(queue) ?? { task, limit };
    first.set(queue, other);
    if (other.limit === limit) continue;
    const [expected, got] = [other.limit, limit].map((one) => one ?? 'none');
    const message = `expected ${expected}, as environment ${other.task} has on the same task queue ${queue}, or a task_queue of its own, got ${got}`;
    yield { path: ['environments', task, 'max_concurrent'], message };
  }
}

export const limitOf = (settings: EnvironmentSettings): number | undefined =>
  'max_concurrent' in settings ? settings.max_concurrent : undefined;

/** Both roles play where rollouts are opened, unless their environment has a queue, or is an agent's with a limit. */
export function queuesOfTurns(
  roles: readonly string[],
  environments: Record<string, EnvironmentSettings>,
): number {
  const plays = roles.includes('generation');
  const isElsewhere = (one: EnvironmentSettings): boolean =>
    !isInProcess(one) &&
    (!plays ||
      ownQueue(one) !== undefined ||
      isAgent(one) ||
      (one.kind === 'gym_agent' && isLimited(one)));
  const steps = roles.includes('environment') && Object.values(environments).some(isElsewhere);
  return plays && steps ? 2 : 1;
}

export interface RoleQueue extends TaskQueue {
  role: 'workflow' | 'generation' | 'environment';
}

export function queuesOf(config: WithEnvironments): RoleQueue[] {
  const of_environments = Object.keys(config.environments).map((task) =>
    environmentQueue(config, task),
  );
  return [
    { name: config.temporal.task_queue, type: 'workflow', role: 'workflow' },
    { name: generationQueue(config), type: 'activity', role: 'generation' },
    ...[...new Set(of_environments)].map((name): RoleQueue => ({
      name,
      type: 'activity',
      role: 'environment',
    })),
  ];
}
