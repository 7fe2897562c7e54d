import { Client } from '@temporalio/client';
import type { Logger } from 'pino';
import type { PolicyInput } from '../activities/contract/policy.js';
import { lookAtReplica } from '../activities/policy/look-at-replica.js';
import type { PolicyRecord } from '../model/policy/record.js';
import { isForgotten, isOverdue, needsCare } from '../model/policy/care.js';
import type { PhaseNews } from '../model/workflow-safe/policy.js';
import { policyId } from '../model/workflow-safe/policy.js';
import { describeError } from '../platform/errors.js';
import { dataConverter } from '../activities/contract/data-converter.js';
import { OtherDeployment, oneDeployment } from '../activities/contract/one-deployment.js';
import { isRunning } from '../temporal/workflow-status.js';
import type { GenerationPool } from '../activities/dependencies.js';
import type { PolicyParts } from './controls.js';
import { keepLooking } from './keep-looking.js';
import { commonMs } from '../platform/waits/common-clock.js';

export type PolicyWorkflows = ReturnType<typeof reachPolicies>;

/** Requests of activities and workers to the `policy` workflows, one per service. */
export function reachPolicies(
  anyones: Client,
  { task_queue, log }: { task_queue: string; log: Logger },
) {
  const client = ofDeployment(anyones, task_queue);
  return {
    sayPhase: async (service: string, news: PhaseNews): Promise<void> => {
      try {
        await client.workflow.getHandle(policyId(service)).signal('phase', news);
      } catch (error) {
        log.warn({ service, ...news }, `cannot show the phase: ${describeError(error)}`);
      }
    },
    /** The workflow reads the record again, and is started if it does not run. */
    wake: async (service: string): Promise<void> => {
      const input: PolicyInput = { service };
      await client.workflow.signalWithStart('policy', {
        workflowId: policyId(service),
        taskQueue: task_queue,
        args: [input],
        signal: 'recover',
      });
    },
    isRunning: (service: string) => isPolicyRunning(client, service),
  };
}

function ofDeployment({ connection, options }: Client, taskQueue: string): Client {
  const { namespace } = options;
  const server = connection.workflowService;
  const workflow = [oneDeployment({ server, namespace, taskQueue })];
  return new Client({ connection, namespace, dataConverter, interceptors: { workflow } });
}

async function isPolicyRunning(client: Client, service: string): Promise<boolean> {
  try {
    return await isRunning(client, policyId(service));
  } catch (error) {
    if (error instanceof OtherDeployment && !error.isOpen) return false;
    throw error;
  }
}

/** Whose policy runs for a service, if it is another deployment's; null: nobody's, or this one's. */
export async function foreignPolicy(
  client: Client,
  { service, task_queue }: { service: string; task_queue: string },
): Promise<string | null> {
  try {
    await isPolicyRunning(ofDeployment(client, task_queue), service);
    return null;
  } catch (error) {
    if (error instanceof OtherDeployment) return error.message;
    throw error;
  }
}

/** How often each worker checks whether some record needs care. */
const LOOK_MS = 3000;
/** After so many of them it looks at one engine, chosen at random: all workers together look at each now and then. */
const LOOKS_OF_ENGINE = 20;
const LOOK_WITHIN_MS = 20_000;

/** From the record alone, any worker starts a lost workflow again, which repairs what is left. Returns what ends it. */
export function keepPolicies(
  parts: {
    policies: ReadonlyMap<string, Pick<PolicyParts, 'records' | 'urls' | 'controls'>>;
    pools: ReadonlyMap<string, Pick<GenerationPool, 'look'>>;
  },
  {
    workflows,
    log,
    nowMs = commonMs,
  }: {
    workflows: PolicyWorkflows;
    log: Logger;
    nowMs?: () => number;
  },
): () => void {
  const looks = [...parts.policies].map(([service, policy]) => {
    let woken_at_epoch = -1;
    let looked = 0;
    let seen = { epoch: -1, since: 0 };
    const look = async (): Promise<void> => {
      await parts.pools.get(service)?.look();
      const record = await policy.records.latest();
      if (record === null) return;
      looked += 1;
      if (looked % LOOKS_OF_ENGINE === 0) await lookAtOne(service, { policy, record, log });
      const now = nowMs();
      if (record.epoch !== seen.epoch) seen = { epoch: record.epoch, since: now };
      const { urls } = policy;
      const isLeft = needsCare(record, urls) && !(await workflows.isRunning(service));
      // A running workflow gets one signal per epoch; it may have its reasons.
      if (!isLeft && record.epoch === woken_at_epoch) return;
      const isNew = urls.some((url) => record.replicas[url] === undefined);
      const isWaiting =
        isOverdue(record, now) || isForgotten(record, { unchanged_ms: now - seen.since });
      if (!isNew && !isLeft && !isWaiting) return;
      woken_at_epoch = record.epoch;
      log.warn(
        { service, epoch: record.epoch },
        'no workflow takes care of the replicas: the policy is started',
      );
      await workflows.wake(service);
    };
    return keepLooking(look, {
      every_ms: LOOK_MS,
      failed: (why) => {
        woken_at_epoch = -1;
        log.warn({ service }, `cannot check the policy: ${why}`);
      },
    });
  });
  return () => {
    for (const end of looks) end();
  };
}

/** An engine that somebody has paused or labelled otherwise, or a balancer that has taken its place, is found so. */
async function lookAtOne(
  service: string,
  {
    policy,
    record,
    log,
  }: { policy: Pick<PolicyParts, 'records' | 'controls'>; record: PolicyRecord; log: Logger },
): Promise<void> {
  const serving = policy
    .controls()
    .filter(({ replica }) => record.replicas[replica]?.state === 'current');
  const control = serving[Math.floor(Math.random() * serving.length)];
  if (control === undefined) return;
  const signal = AbortSignal.timeout(LOOK_WITHIN_MS);
  const what = await lookAtReplica(policy, { control, signal });
  if (what !== null) log.warn({ service, replica: control.replica }, `it serves no more: ${what}`);
}
