/**
 * How long one workflow task may take. The SDK's own limit, which its types do not show, is five seconds by the clock.
 * On a busy machine a second of work takes longer, and a task that is cut ends the whole process: from the first
 * cancellation scope on, Node.js before 24 follows promises on a stack, which code cut within a promise leaves
 * corrupted (nodejs/node#38503).
 */
const LONGEST_TASK_S = 60;

export const workflowThread = { isolateExecutionTimeout: LONGEST_TASK_S * 1000 };

/** What Node.js says last, or the SDK if it finds first that the cut task has never ended. */
const LAST_WORDS = [
  'async hook stack has become corrupted',
  'Workflow execution context should have been disposed first',
];

/** What the last words of a worker mean whose task took longer, and what to do; null if they are others. */
export const explainCutTask = (lastWords: string): string | null =>
  LAST_WORDS.some((words) => lastWords.includes(words))
    ? `A workflow task took longer than ${LONGEST_TASK_S} s: this machine is too busy. Give it more CPUs or fewer rollouts at once (max_in_flight), or use Node.js 24, where only the task fails and is tried again.`
    : null;
