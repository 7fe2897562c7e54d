import { CancellationScope, isCancellation, setHandler } from '@temporalio/workflow';
import { failWith, failureOf } from '../ending.js';
import { stopSignal } from './messages.js';

export type Stop = ReturnType<typeof handleStop>;

/** Signal `stop` of a batch, a slice, a stream or a group. */
export function handleStop() {
  let stopped = false;
  let stop = (): void => undefined;
  setHandler(stopSignal, () => {
    if (stopped) return;
    stopped = true;
    stop();
  });
  return {
    isStopped: () => stopped,
    /** Calls back once: when it is stopped, or at once if it already was. A later callback replaces an earlier one. */
    onStop: (callback: () => void): void => {
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
