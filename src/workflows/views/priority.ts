import type { TaskPriority } from '../../model/workflow-safe/priority.js';

/** As the request has it. */
export const shownPriority = (
  given: TaskPriority | undefined,
): { priority?: number; share?: number } =>
  given === undefined ? {} : { priority: given.priorityKey, share: given.fairnessWeight };
