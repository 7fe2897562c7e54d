import type { WorkflowInboundCallsInterceptor, WorkflowInterceptors } from '@temporalio/workflow';
import { log } from '@temporalio/workflow';
import { undecodableProblem } from '../model/workflow-safe/undecodable.js';
import { beginAnewAfterReset } from './reset.js';

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
