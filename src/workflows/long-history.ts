import { CancellationScope, allHandlersFinished, workflowInfo } from '@temporalio/workflow';

/** Far below what a history may have: replay stays fast, and the last turns and the end still fit. */
const MANY_EVENTS = 2000;

export interface HistoryWatch {
  /** Is it as long as it should get, whatever else is under way? */
  isFull(): boolean;
  /** Is it time to go on in a new run? Never while an ending is under way: the new run would not know of it. */
  isLong(): boolean;
}

/** To be called at the top of a workflow, outside of any scope. */
export function watchHistory(): HistoryWatch {
  // Its cancellation reaches the scopes inside it a moment later.
  const workflow = CancellationScope.current();
  const isFull = (): boolean => {
    const { historyLength, continueAsNewSuggested } = workflowInfo();
    return historyLength >= MANY_EVENTS || continueAsNewSuggested;
  };
  return {
    isFull,
    isLong: () => {
      if (!isFull()) return false;
      const isEnding =
        workflow.consideredCancelled || CancellationScope.current().consideredCancelled;
      return !isEnding && allHandlersFinished();
    },
  };
}
