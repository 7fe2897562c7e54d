import { readdir, stat } from 'node:fs/promises';
import path from 'node:path';
import type { WorkflowHandle } from '@temporalio/client';
import type { Operator } from '../../bed/operator.js';
import { operatorOf } from '../../bed/operator.js';
import type { PolicyBed } from '../../bed/policy-bed.js';
import { startPolicyBed } from '../../bed/policy-bed.js';
import { failedTasksOf, signalUnreadably, updateUnreadably } from './unreadable.js';
import type { Subject } from './subject.js';

/** A turn takes about a second, a rollout of the batch some ten. */
const SIMULATOR = { tokens_per_second: 120, thinking_tokens: 90, log_tokens: true };

/** One worker, one engine and a policy, for the batch and the stream at once. */
export const startDayBed = (): Promise<PolicyBed> =>
  startPolicyBed({
    name: 'chaos-day',
    own_server: true,
    replicas: 1,
    simulator: SIMULATOR,
    // No board is solved by chance.
    skill: 0,
    worker: { heartbeat_timeout: '5s' },
  });

interface Place {
  bed: PolicyBed;
  id: string;
  /** Of the workflows that it starts. */
  children: string;
  /** Names of its updates. */
  updates: readonly string[];
}

type Common = Pick<
  Subject,
  'id' | 'operator' | 'children' | 'signal' | 'update' | 'failedTasks' | 'played'
>;

/** What batches and streams have in common. */
export function commonOf({ bed, id, children, updates }: Place): Common {
  const { client } = bed.server();
  const operator: Operator = operatorOf(bed.server());
  return {
    id,
    operator,
    children: async () => {
      const query = `WorkflowType = '${children}' AND WorkflowId STARTS_WITH '${id}/' AND ExecutionStatus = 'Running'`;
      const ids: string[] = [];
      for await (const { workflowId } of client.workflow.list({ query })) ids.push(workflowId);
      return ids;
    },
    signal: (workflow, { sent }) => signalUnreadably(client, { id: workflow, sent }),
    update: (kind) => updateUnreadably(client, { id, updates, ...kind }),
    failedTasks: (workflow) => failedTasksOf(client, workflow),
    played: () => bytesIn(bed.journals(id)),
  };
}

/** Of all files; 0: there is no folder yet. */
async function bytesIn(folder: string): Promise<number> {
  const names = await readdir(folder).catch(() => []);
  const sizes = names.map(async (name) => {
    const { size } = await stat(path.join(folder, name)).catch(() => ({ size: 0 }));
    return size;
  });
  return (await Promise.all(sizes)).reduce((sum, size) => sum + size, 0);
}

export async function ageOf(handle: WorkflowHandle): Promise<number> {
  const { startTime } = await handle.describe();
  return (Date.now() - startTime.getTime()) / 1000;
}
