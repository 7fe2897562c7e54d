import type { EnvironmentSettings } from '../environments/registry.js';
import { isInProcess } from '../environments/registry.js';
import { generationQueueOf } from '../model/workflow-safe/queues.js';
import type { TaskQueue } from '../temporal/pollers.js';

/** The names of a deployment's task queues. Workflows, planning and closing use `temporal.task_queue` itself. */

interface Deployed {
  temporal: { task_queue: string };
}

export const generationQueue = ({ temporal }: Deployed): string =>
  generationQueueOf(temporal.task_queue);

/** For environments without their own queue. */
export const commonEnvironmentQueue = ({ temporal }: Deployed): string =>
  `${temporal.task_queue}-environment`;

/** The environment's own queue if configured, else the deployment's. */
export function environmentQueue(
  config: Deployed & { environments: Record<string, object> },
  task: string,
): string {
  const settings = config.environments[task];
  return (
    ownQueue(settings) ?? (isAgent(settings) ? agentQueue(config) : commonEnvironmentQueue(config))
  );
}

/** For programs of agents without their own queue: a rollout holds its slot as long as its program runs. */
const agentQueue = ({ temporal }: Deployed): string => `${temporal.task_queue}-agent`;

/** Whether its rollouts are programs that ask the policy, so that a gateway answers them where they are played. */
export const isAgent = (settings: object | undefined): boolean =>
  isOfKind('agent', settings) ||
  (isOfKind('gym_agent', settings) &&
    (settings as { model_server?: unknown }).model_server !== 'own');
const isGymAgent = (settings: object): boolean => isOfKind('gym_agent', settings);

const isOfKind = (kind: string, settings: object | undefined): boolean =>
  settings !== undefined && 'kind' in settings && settings.kind === kind;

export function ownQueue(settings: object | undefined): string | undefined {
  const own = settings !== undefined && 'task_queue' in settings ? settings.task_queue : undefined;
  return typeof own === 'string' ? own : undefined;
}

/** Whether this environment has a queue or a limit of its own. */
export const isLimited = (settings: object): boolean =>
  ownQueue(settings) !== undefined || limitOf(settings) !== undefined;

/** Environments whose rollouts have slots of a queue from beginning to end, with the limit that each names. */
export const playersOn = (
  config: Deployed & { environments: Record<string, object> },
): { task: string; queue: string; limit: number | undefined }[] =>
  Object.entries(config.environments)
    .filter(([, settings]) => isAgent(settings) || isGymAgent(settings))
    .map(([task, settings]) => ({
      task,
      queue: environmentQueue(config, task),
      limit: limitOf(settings),
    }));

/** The slots of a queue are one number: another one would be another's limit. */
export function* unequalLimits(
  config: Deployed & { environments: Record<string, object> },
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

export function limitOf(settings: object): number | undefined {
  const own = 'max_concurrent' in settings ? settings.max_concurrent : undefined;
  return typeof own === 'number' ? own : undefined;
}

/**
 * On how many queues of activities a worker of these roles plays turns. With both roles, rollouts are played where they
 * are opened, unless their environment has a queue, or is an agent's with a limit.
 */
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

/** All of a deployment. */
export function queuesOf(config: Deployed & { environments: Record<string, object> }): RoleQueue[] {
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
