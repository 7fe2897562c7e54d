import type { WorkflowInterceptors } from '@temporalio/workflow';
import { log } from '@temporalio/workflow';
import { undecodableProblem } from '../model/workflow-safe/undecodable.js';

/**
 * A signal has no answer, so the worker's log says why it is ignored: its checks refuse what nobody can read. One that
 * needs no value (`stop`) is obeyed.
 */
export const interceptors = (): WorkflowInterceptors => ({
  inbound: [
    {
      handleSignal: (input, next) => {
        for (const argument of input.args) {
          const problem = undecodableProblem(argument);
          if (problem !== null)
            log.warn(`a value of signal ${input.signalName} is ignored: ${problem}`);
        }
        return next(input);
      },
    },
  ],
});
