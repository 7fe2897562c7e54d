import { hostname } from 'node:os';
import type { Client } from '@temporalio/client';
import { askersOf, processOf, reportsOf, workerIdentity } from '../../temporal/pollers.js';
import { identify, runOf } from '../../platform/process/identity.js';
import type { Config } from '../config.js';
import { queuesOf } from '../queues.js';
import { giveUp } from './give-up.js';
import { hasEnded } from './has-ended.js';
import type { Deployed } from './keep.js';

export async function reachDeployed(
  client: Client,
  config: Config,
): Promise<{ run: string | null; deployed: Deployed }> {
  const { workflowService, options } = client;
  const { namespace } = options;
  const run = await runOf(await identify(process.pid));
  const place = { pid: process.pid, host: hostname(), run, store: null, results: null };
  const queues = queuesOf(config);
  const names = [...new Set(queues.map(({ name }) => name))];
  const takes = await takesReports(client);
  const deployed: Deployed = {
    own: processOf(workerIdentity(place, null)),
    reports: takes ? () => reportsOf(workflowService, { namespace, queues: names }) : null,
    askers: async () => {
      const asked = queues.map((queue) => askersOf(workflowService, { namespace, ...queue }));
      const all = new Set((await Promise.all(asked)).flat());
      const reported = takes
        ? await reportsOf(workflowService, { namespace, queues: names, also_ended: true })
        : [];
      for (const { process } of reported) all.delete(process);
      return [...all];
    },
    hasEnded,
    giveUp: (dead) => giveUp(dead, { client, task_queue: config.temporal.task_queue }),
  };
  return { run, deployed };
}

/** Servers before 1.29 do not, and some namespaces. */
async function takesReports({ workflowService, options }: Client): Promise<boolean> {
  const { namespace } = options;
  const described = await workflowService.describeNamespace({ namespace }).catch(() => null);
  return described?.namespaceInfo?.capabilities?.workerHeartbeats === true;
}
