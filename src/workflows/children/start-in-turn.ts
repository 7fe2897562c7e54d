import { ApplicationFailure, sleep } from '@temporalio/workflow';

/** A child of an earlier run may still be ending: a minute of seconds. */
const MAX_REFUSALS = 60;

export type StartInTurn = <T>(start: () => Promise<T>) => Promise<T>;

/**
 * Starts children; a start that is refused, since a child of the same id is still ending, is tried again, one child
 * at a time: a refusal costs events, and a hundred children that each insist would fill the history. None starts after
 * a stop.
 */
export function createStartInTurn(isStopped: () => boolean): StartInTurn {
  let line: Promise<unknown> = Promise.resolve();

  const checkGoing = (): void => {
    if (isStopped())
      throw ApplicationFailure.nonRetryable('stopped before it was started', 'Stopped');
  };

  const retry = async <T>(start: () => Promise<T>): Promise<T> => {
    for (let refusals = 1; ; refusals++) {
      // A hundred in line would each wait their second.
      checkGoing();
      await sleep('1s');
      checkGoing();
      try {
        return await start();
      } catch (error) {
        if (!isRefusal(error) || refusals === MAX_REFUSALS) throw error;
      }
    }
  };

  return async (start) => {
    try {
      return await start();
    } catch (error) {
      if (!isRefusal(error)) throw error;
    }
    const turn = line.then(() => retry(start));
    line = turn.catch(() => undefined);
    return await turn;
  };
}

const isRefusal = (error: unknown): boolean =>
  error instanceof Error && error.name === 'WorkflowExecutionAlreadyStartedError';
