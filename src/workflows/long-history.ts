import { CancellationScope, allHandlersFinished, workflowInfo } from '@temporalio/workflow';

/** Far below the limit of a history: replay stays fast, and the last turns and the end still fit. */
const MANY_EVENTS = 2000;

/** Call this at the top of a workflow, outside any scope. */
export function watchHistory() {
  // A cancellation reaches the scopes inside it a moment later.
  const workflow = CancellationScope.current();
  let allowed = MANY_EVENTS;
  const isFull = (): boolean => {
    const { historyLength, continueAsNewSuggested } = workflowInfo();
    return historyLength >= allowed || continueAsNewSuggested;
  };
  return {
    /** Whether it is as long as it should get, whatever else is under way. */
    isFull,
    /** Whether to continue in a new run. Never during an ending, which the new run would not have. */
    isLong: (): boolean => {
      if (!isFull()) return false;
      const isEnding =
        workflow.consideredCancelled || CancellationScope.current().consideredCancelled;
      return !isEnding && allHandlersFinished();
    },
    /** Lets the history become longer by what the run itself costs. */
    allow: (events: number): void => {
      allowed = MANY_EVENTS + events;
    },
  };
}
