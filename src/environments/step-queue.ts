import { Positive, Word } from '../model/field-kinds.js';

/** Settings of every environment whose steps are separate activities. */
export const STEP_QUEUE = {
  task_queue: Word.optional().describe(
    "task queue of its steps; absent: the deployment's queue of environments",
  ),
  max_concurrent: Positive.optional().describe('steps at once, per worker'),
};
