import { Client, Connection } from '@temporalio/client';
import { commandLine } from '../../platform/command.js';
import { describeError } from '../../platform/errors.js';
import { clockAhead } from '../../temporal/server-clock.js';
import { differenceText, takeAhead } from '../../platform/waits/common-clock.js';
import { whyUnreached } from '../../temporal/server-address.js';
import { lookAtServer } from '../../temporal/server-tls.js';
import type { Sign } from '../../temporal/pollers.js';
import { isAlive, lastSign, mayBeAlive } from '../../temporal/pollers.js';
import type { Config } from '../config.js';
import type { ConnectionSettings } from '../connection-settings.js';
import { connectionSettings } from '../connection-settings.js';
import type { OwnStore } from '../one-store.js';
import { findOtherStores } from '../one-store.js';
import { foreignPolicy } from '../policies.js';
import type { RoleQueue } from '../queues.js';
import { queuesOf } from '../queues.js';
import { lookAtAttributes, withoutText } from '../search-attributes.js';
import type { Finding, Found } from './finding.js';
import { ANSWERS_WITHIN_MS, broken, findingsOf, limited, ok } from './finding.js';
import { whyTaskFails } from '../../temporal/failing-task.js';
import { OPEN_IN_SEARCHES, onTaskQueue, whyPaused } from '../../temporal/workflow-status.js';

const CONNECTS_WITHIN_MS = 10_000;

interface ServerCheck {
  file: string | undefined;
  /** null: the store cannot be asked. */
  store: Promise<OwnStore | null>;
}

/** Checks the server, its namespace, its search attributes, and whether workers poll the queues. */
export async function checkTemporal(config: Config, asked: ServerCheck): Promise<Finding[]> {
  let settings: ConnectionSettings;
  try {
    settings = connectionSettings(config);
  } catch (error) {
    // A file of TLS that no connection can use is a finding as others are.
    return [{ part: 'temporal', state: 'broken', what: describeError(error) }];
  }
  const { options, namespace, address_from } = settings;
  const part = `temporal ${options.address}`;
  // Its client would try again for ten seconds.
  const found = await lookAtServer(options).catch(() => null);
  if (found?.isFinal === true) return findingsOf(part, [broken(found.what, found.remedy ?? '')]);
  const connection = Connection.lazy({ ...options, connectTimeout: CONNECTS_WITHIN_MS });
  try {
    await connection.ensureConnected();
  } catch (error) {
    await connection.close();
    const { what, remedy } = await whyUnreached(error, { ...options, setting: address_from });
    return findingsOf(part, [broken(what, remedy)]);
  }
  try {
    return await connection.withDeadline(Date.now() + ANSWERS_WITHIN_MS, () =>
      askServer(connection, { part, namespace, config, ...asked }),
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
    store,
  }: { part: string; namespace: string; config: Config } & ServerCheck,
): Promise<Finding[]> {
  try {
    await connection.workflowService.describeNamespace({ namespace });
  } catch (error) {
    const remedy = `temporal operator namespace create --namespace ${namespace}, or name another one (temporal.namespace)`;
    const what = `namespace ${namespace}: ${describeError(error)}`;
    return findingsOf(part, [broken(what, remedy)]);
  }
  const found = findingsOf(part, [
    ok(`namespace ${namespace}`),
    await checkAttributes(connection, namespace),
    ...(await checkClock(connection, namespace).catch(() => [])),
  ]);
  const client = new Client({ connection, namespace });
  for (const queue of queuesOf(config)) found.push(await checkQueue(client, { ...queue, file }));
  found.push(...(await checkPolicies(client, config)));
  const own = await store;
  if (own !== null) found.push(...(await checkStores(client, { config, own })));
  // A server without a search cannot be asked.
  found.push(...(await checkWorkflows(client, config.temporal.task_queue).catch(() => [])));
  return found;
}

/** A service whose policy is another deployment's. A worker would refuse to start. */
async function checkPolicies(
  client: Client,
  { generation, temporal: { task_queue } }: Config,
): Promise<Finding[]> {
  const found: Finding[] = [];
  for (const service of Object.keys(generation)) {
    const what = await foreignPolicy(client, { service, task_queue }).catch(() => null);
    if (what !== null) found.push({ part: `generation.${service}`, state: 'broken', what });
  }
  return found;
}

async function checkStores(
  { workflowService, options: { namespace } }: Client,
  { config, own }: { config: Config; own: OwnStore },
): Promise<Finding[]> {
  const others = await findOtherStores(workflowService, { config, namespace, own });
  return others.flatMap(({ queue, what, remedy }) =>
    findingsOf(`task queue ${queue}`, [broken(what, remedy)]),
  );
}

async function checkClock(connection: Connection, namespace: string): Promise<Found[]> {
  const ahead = await clockAhead(connection, { namespace });
  // Times in the server's answers are by its own clock.
  if (ahead === null || !takeAhead(ahead)) return [];
  const what = `this host's clock is ${differenceText(ahead)} the server's`;
  const remedy =
    'set it (NTP): rollouts are timed by the server’s clock, logs and files by this one';
  return [limited(what, remedy)];
}

async function checkAttributes(connection: Connection, namespace: string): Promise<Found> {
  try {
    const { missing, taken } = await lookAtAttributes(connection, namespace);
    if (taken.length > 0) return { state: 'limited', what: withoutText(taken, namespace) };
    if (missing.length === 0) return ok('search attributes');
    const names = missing.map(({ name }) => name).join(', ');
    const remedy =
      'a worker with the permission adds them when it starts; another prints the commands';
    return limited(`no search attributes ${names} yet`, remedy);
  } catch (error) {
    const remedy = 'workers with the role workflow need them: ask an operator of the namespace';
    return broken(describeError(error), remedy);
  }
}

async function checkQueue(
  client: Client,
  { role, file, ...queue }: RoleQueue & { file: string | undefined },
): Promise<Finding> {
  const { namespace } = client.options;
  const sign = await lastSign(client.workflowService, { namespace, ...queue });
  return { part: `task queue ${queue.name}`, ...workerFinding(sign, { role, file }) };
}

/** Whether a worker waits. Without one, what is started there waits, so anything but certainty is limited. */
export function workerFinding(
  sign: Sign | null,
  { role, file }: { role: string; file: string | undefined },
): Found {
  const start = `start one with role ${role}: ${commandLine('worker', file)}`;
  if (sign === null) {
    const what = 'no worker waits: what is started there waits, too';
    return { ...limited(what, start), waits: true };
  }
  const { ago, every } = sign;
  const worker = sign.worker === null ? 'a worker' : `worker ${sign.worker}`;
  if (isAlive(sign)) return ok(`${worker} was seen ${ago} s ago (${role})`);
  if (mayBeAlive(sign)) {
    const what = `${worker} asked for tasks ${ago} s ago; one that waits asks every ${every} s, so it may be gone`;
    return { ...limited(what, `check again in a minute, or ${start}`), waits: true };
  }
  const what = `${worker} was seen ${ago} s ago; running ones report every ${every} s, so it is gone or hangs`;
  const remedy = `if it hangs, end it with kill -9: npm start, systemd or Kubernetes starts another. Or ${start}`;
  return { ...limited(what, remedy), waits: true };
}

/** Each costs a call, and most workflows that stand still do so for the same reason. */
const MOST_LOOKED_AT = 20;
/** Types that people start; a batch shows what its own children wait for. */
const TYPES = "('rolloutBatch', 'rolloutStream', 'policy', 'rollout')";

/** Open workflows of a task queue that cannot go on by themselves: paused, or their workflow task fails. */
export async function checkWorkflows(client: Client, taskQueue: string): Promise<Finding[]> {
  const found: Finding[] = [];
  const query = `${onTaskQueue(taskQueue)} AND WorkflowType IN ${TYPES} AND ${OPEN_IN_SEARCHES}`;
  let looked = 0;
  for await (const { workflowId, runId } of client.workflow.list({ query })) {
    if (looked++ === MOST_LOOKED_AT) break;
    const described = await client.workflow.getHandle(workflowId, runId).describe();
    const paused = whyPaused(described);
    const what = paused ?? (await whyTaskFails(client, described.raw));
    const state = paused === null ? 'broken' : 'limited';
    if (what !== null) found.push({ part: `workflow ${workflowId}`, state, what });
  }
  return found;
}
