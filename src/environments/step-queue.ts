import { z } from 'zod';

/** Settings of every environment whose steps are separate activities. */
export const STEP_QUEUE = {
  task_queue: z
    .string()
    .min(1)
    .optional()
    .describe("its steps go to this queue instead of the deployment's environment queue"),
  max_concurrent: z.int().positive().optional().describe('concurrent steps, per worker'),
};
