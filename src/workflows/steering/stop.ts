import { CancellationScope, isCancellation, setHandler } from '@temporalio/workflow';
import { failWith, failureOf } from '../ending.js';
import { stopSignal } from './messages.js';

/** Signal `stop` of a batch, a slice, a stream or a group. */
export interface Stop {
  isStopped: () => boolean;
  /** Calls back once: when it is stopped, or at once if it already was. A later callback replaces an earlier one. */
  onStop: (stop: () => void) => void;
}

export function handleStop(): Stop {
  let stopped = false;
  let stop = (): void => undefined;
  setHandler(stopSignal, () => {
    if (stopped) return;
    stopped = true;
    stop();
  });
  return {
    isStopped: () => stopped,
    onStop: (callback) => {
      stop = callback;
      if (stopped) stop();
    },
  };
}

/** Planning waits for the engine. What is stopped meanwhile fails as `Stopped`: it has nothing to close. */
export async function planUnlessStopped<Plan>(
  plan: () => Promise<Plan>,
  { isStopped, onStop }: Stop,
): Promise<Plan> {
  const planning = new CancellationScope();
  onStop(() => {
    planning.cancel();
  });
  try {
    return await planning.run(plan);
  } catch (error) {
    if (isStopped()) throw failWith({ type: 'Stopped', message: 'stopped before it was planned' });
    throw isCancellation(error) ? error : failWith(failureOf(error));
  }
}
