import { randomUUID } from 'node:crypto';
import { WithStartWorkflowOperation } from '@temporalio/client';
import type { PolicyInput, PolicyStatus, PublishResult } from '../activities/contract/policy.js';
import { policyId } from '../model/workflow-safe/policy.js';
import type { ServerAddress } from './server.js';
import { CALL_MS, answered, connectServer, query } from './server.js';

/** Above two megabytes the workflow cannot even refuse an update: its refusal would repeat the arguments. */
const MAX_ARGUMENTS = 2 ** 20;

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
      checkSize(input);
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

function checkSize(input: unknown): void {
  const bytes = Buffer.byteLength(JSON.stringify([input]));
  if (bytes <= MAX_ARGUMENTS) return;
  throw new Error(`publish: expected at most ${MAX_ARGUMENTS} bytes of arguments, got ${bytes}`);
}
