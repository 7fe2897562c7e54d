import { z } from 'zod';

/** What a list shows of a rollout. Lines that begin a turn and the `end` contain it, so a list reads only the last lines. */
export const Glance = z.object({
  task_name: z.string().nullable(),
  /** The rewards so far, however the rollout ended. */
  total_reward: z.number(),
  /** Turns with sampled tokens: the last one may have no answer. */
  turn_count: z.int(),
  /** Generated tokens, those of such a turn included. */
  assistant_tokens: z.int(),
  /** Seconds, as in journal lines; null: it never started. */
  started_at: z.number().nullable(),
  attempts: z.int(),
  faults: z.int(),
  /** Who spoke last and what, in the `end` line; null: nobody spoke. */
  last_words: z.string().nullable().exactOptional(),
});
export type Glance = z.infer<typeof Glance>;
