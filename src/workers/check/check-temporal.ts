import { Client, Connection } from '@temporalio/client';
import { describeError } from '../../platform/errors.js';
import type { Config } from '../config.js';
import { connectionSettings } from '../connection-settings.js';
import { commonEnvironmentQueue, generationQueue, ownQueue } from '../queues.js';
import { missingSearchAttributes } from '../search-attributes.js';
import type { Finding } from './finding.js';
import { ANSWERS_WITHIN_MS } from './finding.js';

/** temporal.api.enums.v1.TaskQueueType, which none of our packages exports. */
const TYPES = { workflow: 1, activity: 2 } as const;
const CONNECTS_WITHIN_MS = 10_000;

/** Checks the server, its namespace, its search attributes, and whether workers poll the queues. */
export async function checkTemporal(config: Config): Promise<Finding[]> {
  const { options, namespace } = connectionSettings(config);
  const part = `temporal ${options.address}`;
  let connection: Connection;
  try {
    connection = await Connection.connect({ ...options, connectTimeout: CONNECTS_WITHIN_MS });
  } catch (error) {
    const remedy =
      'start one (npm start, or temporal server start-dev), or name yours in temporal.yaml (temporal.address) or TEMPORAL_ADDRESS';
    return [{ part, state: 'broken', what: describeError(error), remedy }];
  }
  try {
    return await connection.withDeadline(Date.now() + ANSWERS_WITHIN_MS, () =>
      askServer(connection, { part, namespace, config }),
    );
  } finally {
    await connection.close();
  }
}

async function askServer(
  connection: Connection,
  { part, namespace, config }: { part: string; namespace: string; config: Config },
): Promise<Finding[]> {
  try {
    await connection.workflowService.describeNamespace({ namespace });
  } catch (error) {
    const remedy = `temporal operator namespace create --namespace ${namespace}, or name another one (temporal.namespace)`;
    return [{ part, state: 'broken', what: `namespace ${namespace}: ${describeError(error)}`, remedy }]; // prettier-ignore
  }
  const found: Finding[] = [{ part, state: 'ok', what: `namespace ${namespace}` }];
  found.push(await checkAttributes(connection, { part, namespace }));
  const client = new Client({ connection, namespace });
  for (const queue of queuesOf(config)) found.push(await checkQueue(client, queue));
  return found;
}

async function checkAttributes(
  connection: Connection,
  { part, namespace }: { part: string; namespace: string },
): Promise<Finding> {
  try {
    const missing = await missingSearchAttributes(connection, { namespace });
    if (missing.length === 0) return { part, state: 'ok', what: 'search attributes' };
    const names = missing.map(({ name }) => name).join(', ');
    const remedy =
      'a worker that may adds them when it starts; else it prints the commands to type';
    return { part, state: 'limited', what: `no search attributes ${names} yet`, remedy };
  } catch (error) {
    const remedy = 'workers with the role workflow need them: ask an operator of the namespace';
    return { part, state: 'broken', what: describeError(error), remedy };
  }
}

interface Queue {
  name: string;
  type: 'workflow' | 'activity';
  role: Config['worker']['roles'][number];
}

function queuesOf(config: Config): Queue[] {
  const { task_queue } = config.temporal;
  const of_environments = Object.values(config.environments).map(
    (settings) => ownQueue(settings) ?? commonEnvironmentQueue(config),
  );
  return [
    { name: task_queue, type: 'workflow', role: 'workflow' },
    { name: generationQueue(config), type: 'activity', role: 'generation' },
    ...[...new Set(of_environments)].map((name): Queue => ({
      name,
      type: 'activity',
      role: 'environment',
    })),
  ];
}

async function checkQueue(client: Client, { name, type, role }: Queue): Promise<Finding> {
  const part = `task queue ${name}`;
  const { namespace } = client.options;
  const question = { namespace, taskQueue: { name }, taskQueueType: TYPES[type] };
  // eslint-disable-next-line @typescript-eslint/no-unsafe-enum-assignment -- the enum is not exported
  const { pollers } = await client.workflowService.describeTaskQueue(question);
  return { part, ...pollersFinding(pollers, { role, now: Date.now() }) };
}

/** A worker that waits for tasks asks again after 60 s; the server lists one that died for minutes. */
const ASKS_WITHIN_S = 75;

/** The part of a poller that tells when it last asked. */
interface Poller {
  lastAccessTime?: { seconds?: unknown } | null;
}

/** Whether a worker waits: the one that asked last counts. */
export function pollersFinding(
  pollers: readonly Poller[],
  { role, now }: { role: string; now: number },
): Omit<Finding, 'part'> {
  const remedy = `start one with role ${role}: temporal-rollout worker`;
  if (pollers.length === 0)
    return { state: 'limited', what: 'no worker waits: what is started there waits, too', remedy };
  const asked = pollers.map(({ lastAccessTime }) => Number(lastAccessTime?.seconds ?? 0));
  // The server's clock may be ahead of this one.
  const ago = Math.max(0, Math.round(now / 1000 - Math.max(...asked)));
  if (ago <= ASKS_WITHIN_S)
    return { state: 'ok', what: `a worker asked for tasks ${ago} s ago (${role})` };
  return { state: 'limited', what: `last asked by a worker ${ago} s ago; it may be gone`, remedy };
}
