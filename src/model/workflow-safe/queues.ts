/** Where rollouts are opened and played on: a workflow on `taskQueue` knows it before it has a plan. */
export const generationQueueOf = (taskQueue: string): string => `${taskQueue}-generation`;
