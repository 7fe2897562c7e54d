import { CancellationScope, allHandlersFinished, workflowInfo } from '@temporalio/workflow';

/** Far below the limit of a history: replay stays fast, and the last turns and the end still fit. */
const MANY_EVENTS = 2000;

export interface HistoryWatch {
  /** Whether it is as long as it should get, whatever else is under way. */
  isFull(): boolean;
  /** Whether to continue in a new run. Never during an ending, which the new run would not have. */
  isLong(): boolean;
  /** Lets the history become longer by what the run itself costs. */
  allow(events: number): void;
}

/** Call this at the top of a workflow, outside any scope. */
export function watchHistory(): HistoryWatch {
  // A cancellation reaches the scopes inside it a moment later.
  const workflow = CancellationScope.current();
  let allowed = MANY_EVENTS;
  const isFull = (): boolean => {
    const { historyLength, continueAsNewSuggested } = workflowInfo();
    return historyLength >= allowed || continueAsNewSuggested;
  };
  return {
    isFull,
    isLong: () => {
      if (!isFull()) return false;
      const isEnding =
        workflow.consideredCancelled || CancellationScope.current().consideredCancelled;
      return !isEnding && allHandlersFinished();
    },
    allow: (events) => {
      allowed = MANY_EVENTS + events;
    },
  };
}
