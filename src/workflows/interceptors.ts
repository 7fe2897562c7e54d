import type { WorkflowInboundCallsInterceptor, WorkflowInterceptors } from '@temporalio/workflow';
import { log, continueAsNew } from '@temporalio/workflow';
import { undecodableProblem } from '../model/workflow-safe/undecodable.js';
import { getActivator } from '@temporalio/workflow/lib/global-attributes.js';

export const interceptors = (): WorkflowInterceptors => {
  const { inbound, internals } = beginAnewAfterReset();
  return { inbound: [...inbound, { handleSignal: sayIfIgnored }], internals };
};

type HandleSignal = NonNullable<WorkflowInboundCallsInterceptor['handleSignal']>;

/**
 * A signal has no answer, so the worker's log says why it is ignored: its checks refuse what nobody can read. One that
 * needs no value (`stop`) is obeyed.
 */
const sayIfIgnored: HandleSignal = (input, next) => {
  for (const argument of input.args) {
    const problem = undecodableProblem(argument);
    if (problem !== null) log.warn(`a value of signal ${input.signalName} is ignored: ${problem}`);
  }
  return next(input);
};

/**
 * A workflow that is reset into its middle has a past that the store is ahead of: its children may have ended without
 * a word to it (temporalio/temporal#10639), its timers have run since the first run, and what it would write next is
 * there. So it continues as a new run, which finds in the store what there is, as if its id were started again. A reset
 * to the first task is that by itself.
 */
function beginAnewAfterReset(): Required<Pick<WorkflowInterceptors, 'inbound' | 'internals'>> {
  let notice = (): void => undefined;
  const reset = new Promise<void>((resolve) => {
    notice = resolve;
  });
  // The SDK tells a workflow of a reset only by another seed, and takes that job out before an interceptor sees it.
  let seed = getActivator().randomnessSeed;
  const look = (isFirst: boolean): void => {
    const now = getActivator().randomnessSeed;
    if (now !== seed && !isFirst) notice();
    seed = now;
  };
  return {
    inbound: [
      {
        execute: (input, next) => Promise.race([next(input), reset.then(() => anew(input.args))]),
      },
    ],
    internals: [
      {
        activate: (input, next) => {
          const isFirst = (input.activation.jobs ?? []).some((job) =>
            Boolean(job.initializeWorkflow),
          );
          look(isFirst);
          next(input);
          look(isFirst);
        },
      },
    ],
  };
}

/** Without what only a previous run gives: the store has it. */
async function anew([input]: unknown[]): Promise<never> {
  log.info('was reset: continues from the store as a new run');
  return await continueAsNew<(input: unknown) => Promise<unknown>>(input);
}
