/** How the tasks of a batch or a stream are ordered beside those of others, in Temporal's terms. */
export interface TaskPriority {
  /** 1 comes first. */
  priorityKey: number;
  /** Names the batch or stream, which shares equally with others. */
  fairnessKey: string;
  /** With twice the weight of others it gets twice as much. */
  fairnessWeight: number;
}

export const shownPriority = (
  given: TaskPriority | undefined,
): { priority?: number; share?: number } =>
  given === undefined ? {} : { priority: given.priorityKey, share: given.fairnessWeight };
