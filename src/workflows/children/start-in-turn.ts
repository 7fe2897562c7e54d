import { ApplicationFailure, sleep } from '@temporalio/workflow';

/** A child of an earlier run may still be ending: 60 tries, a second apart. */
const MAX_REFUSALS = 60;

export type StartInTurn = <T>(start: () => Promise<T>, isOver: () => boolean) => Promise<T>;

/**
 * Starts children. A start is refused while a child of the same id is still ending; it is tried again, for one child at
 * a time. Refusals cost events, and a hundred children that all retry would fill the history. Nothing is retried once
 * it is over.
 */
export function createStartInTurn(): StartInTurn {
  let line: Promise<unknown> = Promise.resolve();

  const checkGoing = (isOver: () => boolean): void => {
    if (isOver()) throw ApplicationFailure.nonRetryable('stopped before it was started', 'Stopped');
  };

  const retry: StartInTurn = async (start, isOver) => {
    for (let refusals = 1; ; refusals++) {
      // A hundred waiting children would each wait their second.
      checkGoing(isOver);
      await sleep('1s');
      checkGoing(isOver);
      try {
        return await start();
      } catch (error) {
        if (!isRefusal(error) || refusals === MAX_REFUSALS) throw error;
      }
    }
  };

  return async (start, isOver) => {
    try {
      return await start();
    } catch (error) {
      if (!isRefusal(error)) throw error;
    }
    const turn = line.then(() => retry(start, isOver));
    line = turn.catch(() => undefined);
    return await turn;
  };
}

/** A workflow with this id runs, or is still ending. */
export const isRefusal = (error: unknown): boolean =>
  error instanceof Error && error.name === 'WorkflowExecutionAlreadyStartedError';
