import type { Connection, WorkflowClientInterceptor } from '@temporalio/client';
import { isGrpcServiceError } from '@temporalio/client';
import { livingWorkers, namedIn } from '../../temporal/pollers.js';

/** The fact of a batch's or stream's memo that names the store of its deployment. */
export const STORE_MEMO = 'store_id';
/** The one that names the environments of its samples: Python's `local()` changes no code that they play with. */
export const TASKS_MEMO = 'tasks';

/** The workflow of an id is another deployment's: it plays on another task queue, or wrote into another store. */
export class OtherDeployment extends Error {
  readonly isOpen: boolean;

  constructor(message: string, { isOpen }: { isOpen: boolean }) {
    super(message);
    this.isOpen = isOpen;
  }
}

interface Deployment {
  server: Connection['workflowService'];
  namespace: string;
  taskQueue: string;
}

type Described = Pick<
  Awaited<ReturnType<Connection['workflowService']['describeWorkflowExecution']>>,
  'workflowExecutionInfo'
>;

interface OfWorkflow {
  workflowExecution: { workflowId?: string | null };
}

/** gRPC's code: the server has no workflow of this id. */
const NOT_FOUND = 5;
/** How long a workflow that was found to be this deployment's own is not asked about again. */
const OWN_MS = 5000;

/**
 * Ids are their users' own, so an id may be that of another deployment in the namespace. Before a client signals, asks,
 * updates or cancels a workflow, this asks whose it is; whoever describes one is told. Rejects with `OtherDeployment`. An
 * ended workflow of another one keeps nobody from starting the id.
 */
export function oneDeployment(own: Deployment): WorkflowClientInterceptor {
  const seen = new Map<string, number>();
  const check = async (found: Described): Promise<void> => {
    const id = found.workflowExecutionInfo?.execution?.workflowId ?? '';
    seen.delete(id);
    const other = await differenceOf(found, own);
    const isOpen = (found.workflowExecutionInfo?.closeTime ?? null) === null;
    if (other !== null) throw new OtherDeployment(`${id} is ${other}`, { isOpen });
    seen.set(id, performance.now());
  };
  const ask = async (id: string | null | undefined): Promise<void> => {
    if (!id || performance.now() - (seen.get(id) ?? -Infinity) < OWN_MS) return;
    const { server, namespace } = own;
    const question = { namespace, execution: { workflowId: id } };
    const found = await server.describeWorkflowExecution(question).catch((error: unknown) => {
      if (isGrpcServiceError(error) && [NOT_FOUND].includes(error.code)) return null;
      throw error;
    });
    if (found !== null) await check(found);
  };
  const askIfOpen = async (id: string): Promise<void> => {
    await ask(id).catch((error: unknown) => {
      if (!(error instanceof OtherDeployment) || error.isOpen) throw error;
    });
  };
  const first = async <I extends OfWorkflow, R>(
    input: I,
    next: (input: I) => Promise<R>,
  ): Promise<R> => {
    await ask(input.workflowExecution.workflowId);
    return await next(input);
  };
  return {
    describe: async (input, next) => {
      const found = await next(input);
      await check({ workflowExecutionInfo: null, ...found });
      return found;
    },
    query: first,
    signal: first,
    startUpdate: first,
    cancel: first,
    signalWithStart: async (input, next) => {
      await askIfOpen(input.options.workflowId);
      return await next(input);
    },
    startUpdateWithStart: async (input, next) => {
      await askIfOpen(input.workflowStartOptions.workflowId);
      return await next(input);
    },
  };
}

/** How its deployment differs from this one; null: it does not. */
async function differenceOf(found: Described, own: Deployment): Promise<string | null> {
  const { taskQueue, memo, type } = found.workflowExecutionInfo ?? {};
  const remedy =
    type?.name === 'policy'
      ? 'give this deployment a namespace or a service name of its own, or end that policy if its deployment is gone'
      : 'use another id, or the settings of that deployment';
  if (typeof taskQueue === 'string' && taskQueue !== own.taskQueue)
    return `another deployment's: its task queue is ${taskQueue}, this one's is ${own.taskQueue} (temporal.task_queue); ${remedy}`;
  const data = memo?.fields?.[STORE_MEMO]?.data;
  if (!data) return null;
  const store = Buffer.from(data).toString().replaceAll('"', '');
  const ours = await storesOf(own);
  if (ours.length === 0 || ours.includes(store)) return null;
  return `another deployment's: its store is ${store}, that of the workers of task queue ${own.taskQueue} is ${ours.join(', ')} (store in temporal.yaml); ${remedy}`;
}

/** The stores of this deployment's living workers. Empty: none runs, or the server does not say. */
async function storesOf({ server, namespace, taskQueue: name }: Deployment): Promise<string[]> {
  const queue = { namespace, name, type: 'workflow' } as const;
  const living = await livingWorkers(server, queue).catch(() => []);
  const ids = living.map(({ identity }) => namedIn(identity).store);
  return [...new Set(ids.filter((id) => id !== null))];
}
