import { ApplicationFailure, sleep } from '@temporalio/workflow';

/** A child of an earlier run may still be ending: a minute of seconds. */
const MAX_REFUSALS = 60;

export type StartInTurn = <T>(start: () => Promise<T>, isOver: () => boolean) => Promise<T>;

/**
 * Starts children; a start that is refused, since a child of the same id is still ending, is tried again, one child
 * at a time: a refusal costs events, and a hundred children that each insist would fill the history. None is tried again
 * once it is over.
 */
export function createStartInTurn(): StartInTurn {
  let line: Promise<unknown> = Promise.resolve();

  const checkGoing = (isOver: () => boolean): void => {
    if (isOver()) throw ApplicationFailure.nonRetryable('stopped before it was started', 'Stopped');
  };

  const retry: StartInTurn = async (start, isOver) => {
    for (let refusals = 1; ; refusals++) {
      // A hundred in line would each wait their second.
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

const isRefusal = (error: unknown): boolean =>
  error instanceof Error && error.name === 'WorkflowExecutionAlreadyStartedError';
