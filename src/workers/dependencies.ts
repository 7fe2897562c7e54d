import type { Client } from '@temporalio/client';
import { WorkflowFailedError, WorkflowNotFoundError } from '@temporalio/client';
import { ApplicationFailure } from '@temporalio/common';
import type { Logger } from 'pino';
import type { AttemptDependencies } from '../activities/attempt.js';
import { createRunAttempt } from '../activities/attempt.js';
import { createSlots } from '../activities/slots.js';
import type {
  Dependencies,
  PolicyService,
  WorkerDependencies,
  WorkflowEnd,
} from '../activities/dependencies.js';
import { createLimitsWatch } from '../activities/limits/limit-facts.js';
import { BARE_KINDS } from '../environments/registry.js';
import { toMs } from '../model/workflow-safe/durations.js';
import { describeError } from '../platform/errors.js';
import { onceItSucceeds } from '../platform/waits/shared.js';
import { OPEN_IN_SEARCHES, isRunning } from '../temporal/workflow-status.js';
import type { Config } from './config.js';
import { memoryOf } from './config.js';
import { heartbeatMs } from './worker-settings.js';
import type { Parts } from './parts.js';
import type { PolicyWorkflows } from './policies.js';
import { generationQueue } from './queues.js';
import { slotsOf } from './slots.js';
import { waitOfDescribed, waitOfQueue } from './wait-of.js';

export interface Temporal
  extends
    AttemptDependencies,
    Pick<Dependencies, 'countOpenRollouts' | 'waitOf' | 'waitOfQueue' | 'isOver' | 'endOf'> {
  policies: Pick<PolicyWorkflows, 'sayPhase' | 'wake'>;
}

export function createDependencies(
  config: Config,
  {
    parts,
    temporal,
    gateway = null,
    unlisted = () => [],
    seen = false,
  }: { parts: Parts; temporal: Temporal; seen?: boolean } & Partial<
    Pick<Dependencies, 'gateway' | 'unlisted'>
  >,
): WorkerDependencies {
  return {
    ...temporal,
    store: parts.store,
    // Every call to an environment needs it, and it never changes.
    storeId: onceItSucceeds(() => parts.store.storeId()),
    service: (name) => parts.pools.get(name),
    environment: (task) => parts.environments.get(task),
    policy: (name) => policyOf(name, { parts, temporal }),
    known: {
      services: [...parts.pools.keys()],
      environments: [...parts.environments.keys()],
      bare_kinds: BARE_KINDS,
    },
    attempt: createRunAttempt({ ...temporal, slots: createSlots(slotsOf(config)) }),
    gateway,
    answers: parts.answers,
    folds: parts.folds,
    limits: createLimitsWatch(parts.store.facts),
    deployment: {
      inputs_dir: config.inputs_dir,
      sample_bytes: memoryOf(config).sample_bytes,
      turn_slice_ms: toMs(config.worker.turn_slice),
      heartbeat_timeout_ms: heartbeatMs(config, seen),
      heartbeat_grows: seen && config.worker.heartbeat_timeout === null,
      generation_queue: generationQueue(config),
      viewer_url: config.viewer.url,
    },
    unlisted,
  };
}

function policyOf(
  service: string,
  { parts, temporal: { policies } }: { parts: Parts; temporal: Temporal },
): PolicyService | undefined {
  const policy = parts.policies.get(service);
  return (
    policy && {
      ...policy,
      sayPhase: (news) => policies.sayPhase(service, news),
      wake: () => policies.wake(service),
    }
  );
}

export function askTemporal(
  client: Client,
  { policies, log }: { policies: PolicyWorkflows; log: Logger },
): Temporal {
  return {
    policies,
    signalWaiting: async ({ workflow_id, run_id, workflow_type }, waiting) => {
      if (waiting !== null) log.warn({ workflow_id, ...waiting }, 'waiting');
      // It shows nothing itself, and signals of a hundred rollouts would fill its history.
      if (workflow_type === 'rolloutSlice') return;
      try {
        await client.workflow.getHandle(workflow_id, run_id).signal('waiting', waiting);
      } catch (error) {
        log.warn(
          { workflow_id },
          `cannot tell the workflow that it waits: ${describeError(error)}`,
        );
      }
    },
    countOpenRollouts: async (batchId) => {
      const query = `WorkflowId STARTS_WITH "${batchId}/" AND ${OPEN_IN_SEARCHES}`;
      return (await client.workflow.count(query)).count;
    },
    waitOf: async (workflowId) =>
      waitOfDescribed(await client.workflow.getHandle(workflowId).describe(), { client }),
    waitOfQueue: (name) => waitOfQueue(name, { client, ifUsed: true }),
    isOver: async (workflowId) => !(await isRunning(client, workflowId)),
    endOf: (workflowId) => endOf(client, workflowId),
  };
}

async function endOf(
  { workflow }: Pick<Client, 'workflow'>,
  workflowId: string,
): Promise<WorkflowEnd | null> {
  const handle = workflow.getHandle(workflowId);
  try {
    const { status } = await handle.describe();
    if (status.name === 'COMPLETED') return 'completed';
    // A workflow that runs would be waited for.
    if (status.name === 'FAILED') await handle.result();
    return null;
  } catch (error) {
    if (error instanceof WorkflowNotFoundError) return null;
    if (!(error instanceof WorkflowFailedError)) throw error;
    const { cause } = error;
    if (!(cause instanceof ApplicationFailure)) return null;
    return { type: cause.type ?? 'Error', message: cause.message };
  }
}
