import { randomUUID } from 'node:crypto';
import { WithStartWorkflowOperation } from '@temporalio/client';
import type { PolicyInput, PolicyStatus, PublishResult } from '../activities/contract/policy.js';
import { policyId } from '../model/workflow-safe/policy.js';
import { preview } from '../model/problems.js';
import { servicesOf } from '../platform/pollers.js';
import type { Server, ServerAddress } from './server.js';
import { CALL_MS, answered, checkSize, connectServer, query } from './server.js';

/** The policy of a generation service, for code outside a worker. */
export interface PolicyClient {
  /** Starts the policy if it does not run; resolves with the update. */
  publish: (input: unknown) => Promise<PublishResult>;
  /** The workflow's state; throws if it was never started. */
  status: () => Promise<PolicyStatus>;
  close: () => Promise<void>;
}

export async function connectPolicy(
  address: ServerAddress,
  { service, task_queue }: { service: string; task_queue: string },
): Promise<PolicyClient> {
  const server = await connectServer(address);
  const workflowId = policyId(service);
  return {
    publish: async (input) => {
      checkSize('publish', input);
      await checkService(server, { service, task_queue });
      const args: [PolicyInput] = [{ service }];
      const startWorkflowOperation = new WithStartWorkflowOperation('policy', {
        workflowId,
        taskQueue: task_queue,
        args,
        workflowIdConflictPolicy: 'USE_EXISTING',
      });
      // Updates have no id, because Temporal would remember a failure under it. Their version identifies them.
      const update = await answered(workflowId, () =>
        server.within(CALL_MS, () =>
          server.client.workflow.startUpdateWithStart('publish', {
            args: [input],
            updateId: randomUUID(),
            waitForStage: 'ACCEPTED',
            startWorkflowOperation,
          }),
        ),
      );
      return (await update.result()) as PublishResult;
    },
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
