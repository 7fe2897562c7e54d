import { randomUUID } from 'node:crypto';
import type { WorkflowUpdateHandle } from '@temporalio/client';
import { WithStartWorkflowOperation } from '@temporalio/client';
import type {
  BeginAnswer,
  PolicyInput,
  PolicyState,
  PolicyStatus,
  PublishResult,
  SleepAnswer,
} from '../activities/contract/policy.js';
import { policyId } from '../model/workflow-safe/policy.js';
import { preview } from '../model/problems.js';
import { servicesOf } from '../temporal/pollers.js';
import type { Server, ServerAddress } from './server.js';
import { CALL_MS, checkSize, connectServer, query, updated } from './server.js';

export type PolicyClient = Awaited<ReturnType<typeof connectPolicy>>;

type Changes = 'abandon' | 'attach' | 'release' | 'wake' | 'engines' | 'join' | 'drain' | 'leave';

export interface PolicyAnswers extends Record<Changes, PolicyState> {
  publish: PublishResult;
  begin: BeginAnswer;
  finish: PublishResult;
  sleep: SleepAnswer;
}
export type PolicyUpdate = keyof PolicyAnswers;

/** The policy of a generation service, for code outside a worker. */
export async function connectPolicy(
  address: ServerAddress,
  { service, task_queue }: { service: string; task_queue: string },
) {
  const server = await connectServer({ ...address, taskQueue: task_queue });
  const workflowId = policyId(service);
  const args: [PolicyInput] = [{ service }];
  const start = { workflowId, taskQueue: task_queue, args };
  /** Starts the policy if it does not run, and resolves with the answer. */
  const update = async <N extends PolicyUpdate>(
    name: N,
    input: unknown,
  ): Promise<PolicyAnswers[N]> => {
    checkSize(name, input);
    await checkService(server, { service, task_queue });
    // Updates have no id, because Temporal would remember a failure under it. Version or ticket identifies them.
    const ask = (): Promise<WorkflowUpdateHandle<PolicyAnswers[N]>> =>
      server.client.workflow.startUpdateWithStart(name, {
        args: [input],
        updateId: randomUUID(),
        waitForStage: 'ACCEPTED',
        startWorkflowOperation: new WithStartWorkflowOperation('policy', {
          ...start,
          workflowIdConflictPolicy: 'USE_EXISTING',
        }),
      });
    return await updated(server, { workflowId, start: () => server.within(CALL_MS, ask) });
  };
  return {
    update,
    /** Signal `alive` of a transfer. */
    alive: async (input: { ticket: string; done: number }): Promise<void> => {
      await checkService(server, { service, task_queue });
      await server.within(CALL_MS, () =>
        server.client.workflow.signalWithStart('policy', {
          ...start,
          signal: 'alive',
          signalArgs: [input],
        }),
      );
    },
    /** The workflow's state; throws if it was never started. */
    status: () => query<PolicyStatus>(server, { workflowId, name: 'status' }),
    close: server.close,
  };
}

/** A workflow of a service that no worker has would only fail. Without an answer, it says so itself. */
async function checkService(
  { client, within }: Pick<Server, 'client' | 'within'>,
  { service, task_queue: name }: { service: string; task_queue: string },
): Promise<void> {
  const { namespace } = client.options;
  const ask = () => servicesOf(client.workflowService, { namespace, name });
  const services = await within(CALL_MS, ask).catch(() => null);
  if (services === null || services.includes(service)) return;
  throw new Error(
    `policy: expected a generation service that the workers of task queue ${name} have (${services.join(', ')}), got ${preview(service)}; nothing was started`,
  );
}
