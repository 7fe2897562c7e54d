import { Client, Connection } from '@temporalio/client';
import { commandLine } from '../../platform/command.js';
import { describeError } from '../../platform/errors.js';
import { addressRemedy } from '../../platform/server-address.js';
import type { Sign, TaskQueue } from '../../platform/pollers.js';
import { isAlive, lastSign, mayBeAlive } from '../../platform/pollers.js';
import type { Config } from '../config.js';
import { connectionSettings } from '../connection-settings.js';
import { commonEnvironmentQueue, generationQueue, ownQueue } from '../queues.js';
import { missingSearchAttributes } from '../search-attributes.js';
import { checkWorkflows } from './check-workflows.js';
import type { Finding } from './finding.js';
import { ANSWERS_WITHIN_MS } from './finding.js';

const CONNECTS_WITHIN_MS = 10_000;

/** Checks the server, its namespace, its search attributes, and whether workers poll the queues. */
export async function checkTemporal(config: Config, file: string | undefined): Promise<Finding[]> {
  const { options, namespace, address_from } = connectionSettings(config);
  const part = `temporal ${options.address}`;
  let connection: Connection;
  try {
    connection = await Connection.connect({ ...options, connectTimeout: CONNECTS_WITHIN_MS });
  } catch (error) {
    const what = describeError(error);
    return [{ part, state: 'broken', what, remedy: addressRemedy(what, address_from) }];
  }
  try {
    return await connection.withDeadline(Date.now() + ANSWERS_WITHIN_MS, () =>
      askServer(connection, { part, namespace, config, file }),
    );
  } finally {
    await connection.close();
  }
}

async function askServer(
  connection: Connection,
  {
    part,
    namespace,
    config,
    file,
  }: { part: string; namespace: string; config: Config; file: string | undefined },
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
  for (const queue of queuesOf(config)) found.push(await checkQueue(client, { ...queue, file }));
  // A server without a search cannot be asked.
  found.push(...(await checkWorkflows(client, config.temporal.task_queue).catch(() => [])));
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

interface Queue extends TaskQueue {
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

async function checkQueue(
  client: Client,
  { role, file, ...queue }: Queue & { file: string | undefined },
): Promise<Finding> {
  const { namespace } = client.options;
  const sign = await lastSign(client.workflowService, { namespace, ...queue });
  return { part: `task queue ${queue.name}`, ...workerFinding(sign, { role, file }) };
}

/** Whether a worker waits. Without one, what is started there waits, so anything but certainty is limited. */
export function workerFinding(
  sign: Sign | null,
  { role, file }: { role: string; file: string | undefined },
): Omit<Finding, 'part'> {
  const start = `start one with role ${role}: ${commandLine('worker', file)}`;
  if (sign === null) {
    const what = 'no worker waits: what is started there waits, too';
    return { state: 'limited', what, waits: true, remedy: start };
  }
  const { ago, every } = sign;
  if (isAlive(sign)) return { state: 'ok', what: `a worker was seen ${ago} s ago (${role})` };
  if (mayBeAlive(sign)) {
    const what = `a worker asked for tasks ${ago} s ago; one that waits asks every ${every} s, so it may be gone`;
    return { state: 'limited', what, waits: true, remedy: `check again in a minute, or ${start}` };
  }
  const what = `a worker was seen ${ago} s ago; one that runs gives a sign every ${every} s, so it is gone, or hangs`;
  return { state: 'limited', what, waits: true, remedy: start };
}
