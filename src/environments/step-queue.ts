import { z } from 'zod';

/** Settings of every environment whose steps are separate activities. */
export const STEP_QUEUE = {
  task_queue: z
    .string()
    .min(1)
    .optional()
    .describe("task queue of its steps; absent: the deployment's queue of environments"),
  max_concurrent: z.int().positive().optional().describe('steps at once, per worker'),
};
