import type { Client } from '@temporalio/client';
import type { Logger } from 'pino';
import type { PolicyInput } from '../activities/contract.js';
import type { Dependencies } from '../activities/dependencies.js';
import { isOverdue, needsCare } from '../model/policy/record.js';
import { policyId } from '../model/workflow-safe/policy.js';
import { describeError } from '../platform/errors.js';
import type { Config } from './config.js';
import type { Parts } from './parts.js';

interface Reach {
  client: Client;
  config: Pick<Config, 'temporal'>;
  log: Logger;
}

/** What activities use of a service's policy. */
export function createPolicies(
  { policies }: Pick<Parts, 'policies'>,
  reach: Reach,
): Dependencies['policy'] {
  const { client, log } = reach;
  return (service) => {
    const parts = policies.get(service);
    if (parts === undefined) return undefined;
    return {
      ...parts,
      sayPhase: async (news) => {
        try {
          await client.workflow.getHandle(policyId(service)).signal('phase', news);
        } catch (error) {
          log.warn({ service, ...news }, `cannot show the phase: ${describeError(error)}`);
        }
      },
      wake: () => wake(service, reach),
    };
  };
}

/** Each worker looks so often whether a record is in nobody's care. */
const LOOK_MS = 3000;

/**
 * Whoever began an update may be gone, and with it the workflow: a record that says so is enough for any worker to start
 * the workflow again, which then mends what there is to mend. Returns what ends it.
 */
export function keepPolicies(parts: Pick<Parts, 'policies'>, reach: Reach): () => void {
  const looks = [...parts.policies].map(([service, policy]) => {
    let woken_at_epoch = -1;
    const look = async (): Promise<void> => {
      const record = await policy.records.latest();
      if (record === null || record.epoch === woken_at_epoch) return;
      const urls = policy.controls.map(({ replica }) => replica);
      const isNew = urls.some((url) => record.replicas[url] === undefined);
      const isLeft = needsCare(record, urls) && !(await isRunning(service, reach));
      if (!isNew && !isLeft && !isOverdue(record, Date.now())) return;
      woken_at_epoch = record.epoch;
      reach.log.warn(
        { service, epoch: record.epoch },
        'replicas are in nobody’s care: the policy is started',
      );
      await wake(service, reach);
    };
    return setInterval(() => {
      look().catch((error: unknown) => {
        woken_at_epoch = -1;
        reach.log.warn({ service }, `the policy is not looked after: ${describeError(error)}`);
      });
    }, LOOK_MS);
  });
  return () => {
    looks.forEach(clearInterval);
  };
}

async function isRunning(service: string, { client }: Reach): Promise<boolean> {
  try {
    const { status } = await client.workflow.getHandle(policyId(service)).describe();
    return status.name === 'RUNNING';
  } catch (error) {
    if (error instanceof Error && error.name === 'WorkflowNotFoundError') return false;
    throw error;
  }
}

async function wake(service: string, { client, config }: Reach): Promise<void> {
  const input: PolicyInput = { service };
  await client.workflow.signalWithStart('policy', {
    workflowId: policyId(service),
    taskQueue: config.temporal.task_queue,
    args: [input],
    signal: 'recover',
  });
}
