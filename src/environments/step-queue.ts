import { z } from 'zod';

/** Settings of every environment whose steps are separate activities. */
export const STEP_QUEUE = {
  /** Its steps go to this queue instead of the deployment's environment queue. */
  task_queue: z.string().min(1).optional(),
  /** Concurrent steps, per worker. */
  max_concurrent: z.int().positive().optional(),
};
