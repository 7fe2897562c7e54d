import { z } from 'zod';

/** Settings of every environment whose steps are activities of their own. */
export const STEP_QUEUE = {
  /** Its steps go to this queue instead of the deployment's environment queue. */
  task_queue: z.string().min(1).optional(),
  /** Steps of it at once, per worker. */
  max_concurrent: z.int().positive().optional(),
};
