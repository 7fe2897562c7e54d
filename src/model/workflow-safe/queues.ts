/** The queue where rollouts are opened and played. A workflow on `taskQueue` can derive it before it has a plan. */
export const generationQueueOf = (taskQueue: string): string => `${taskQueue}-generation`;
