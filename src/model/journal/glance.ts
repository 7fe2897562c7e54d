import { z } from 'zod';

/** What a list shows of a rollout. The `end` line contains it, so listing ended rollouts folds no journal. */
export const Glance = z.object({
  task_name: z.string().nullable(),
  /** The rewards so far, however the rollout ended. */
  total_reward: z.number(),
  turn_count: z.int(),
  /** Generated tokens. */
  assistant_tokens: z.int(),
  /** Seconds, as in journal lines; null: it never started. */
  started_at: z.number().nullable(),
  attempts: z.int(),
  /** Fault lines of any type. */
  faults: z.int(),
});
export type Glance = z.infer<typeof Glance>;
