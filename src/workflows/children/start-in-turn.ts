import {
  ApplicationFailure,
  condition,
  getExternalWorkflowHandle,
  sleep,
} from '@temporalio/workflow';
import { unawaited } from '../steering/messages.js';

/** A child of an earlier run may still be ending: so many tries, a second apart. */
const QUICK_TRIES = 60;
/** If a child of an earlier run still plays then, a person must end it: the batch cannot close before. */
const LONGEST_PAUSE_S = 600;
/** A child that is ending has ended by this refusal; one that plays on belongs to a run that was reset. */
const PLAYS_ON = 2;

interface Child {
  workflowId: string;
  isOver: () => boolean;
}

/**
 * Starts children. A start is refused while a child of the same id runs. It may be ending; or it plays on for a run that
 * was reset to before its start (temporalio/temporal#7882). Such children are cancelled, which costs nothing that they
 * have played: their journals continue under the new child. Refusals cost events, and a hundred children that all retry
 * would fill the history, so one is tried again at a time. Nothing is retried once it is over.
 */
export function createStartInTurn() {
  let line: Promise<unknown> = Promise.resolve();
  const waiting = new Set<string>();
  let takesOver = false;

  const checkGoing = ({ isOver }: Child): void => {
    if (isOver()) throw ApplicationFailure.nonRetryable('stopped before it was started', 'Stopped');
  };
  const end = (workflowId: string): void => {
    unawaited(getExternalWorkflowHandle(workflowId).cancel());
  };
  const endAll = (): void => {
    takesOver = true;
    for (const workflowId of waiting) end(workflowId);
  };

  /** null: it is still refused. */
  const quickly = async <T>(start: () => Promise<T>, child: Child): Promise<{ as: T } | null> => {
    for (let refusals = 1; refusals <= QUICK_TRIES; refusals++) {
      // A hundred waiting children would each wait their second.
      checkGoing(child);
      await sleep('1s');
      checkGoing(child);
      const started = await unlessRefused(start);
      if (started !== null) return started;
      if (refusals === PLAYS_ON && !takesOver) endAll();
    }
    return null;
  };
  /** Outside the line, which it would hold up. */
  const patiently = async <T>(start: () => Promise<T>, child: Child): Promise<T> => {
    for (let pause_s = 2; ; pause_s = Math.min(LONGEST_PAUSE_S, 2 * pause_s)) {
      await condition(child.isOver, pause_s * 1000);
      checkGoing(child);
      const started = await unlessRefused(start);
      if (started !== null) return started.as;
    }
  };

  return async <T>(start: () => Promise<T>, child: Child): Promise<T> => {
    const { workflowId } = child;
    const first = await unlessRefused(start);
    if (first !== null) return first.as;
    waiting.add(workflowId);
    if (takesOver) end(workflowId);
    const turn = line.then(() => quickly(start, child)).finally(() => waiting.delete(workflowId));
    line = turn.catch(() => undefined);
    const started = await turn;
    return started !== null ? started.as : await patiently(start, child);
  };
}

async function unlessRefused<T>(start: () => Promise<T>): Promise<{ as: T } | null> {
  try {
    return { as: await start() };
  } catch (error) {
    if (!isRefusal(error)) throw error;
    return null;
  }
}

/** A workflow with this id runs, or is still ending. */
export const isRefusal = (error: unknown): boolean =>
  error instanceof Error && error.name === 'WorkflowExecutionAlreadyStartedError';
