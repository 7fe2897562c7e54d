import { z } from 'zod';
import type { Trajectory } from './trajectory.js';

/** What a list shows of a rollout. An `end` line has it: a list of rollouts that have ended folds no journal. */
export const Glance = z.object({
  task_name: z.string().nullable(),
  /** What the environment has given so far, however the rollout ended. */
  total_reward: z.number(),
  turn_count: z.int(),
  /** Generated ones. */
  assistant_tokens: z.int(),
  /** Seconds as lines have them; null: it never started. */
  started_at: z.number().nullable(),
  attempts: z.int(),
  /** Fault lines of any type. */
  faults: z.int(),
});
export type Glance = z.infer<typeof Glance>;

export const glanceOf = (trajectory: Trajectory): Glance => ({
  task_name: trajectory.start?.task_name ?? null,
  total_reward: trajectory.total_reward,
  turn_count: trajectory.turns.length,
  assistant_tokens: trajectory.assistant_tokens,
  started_at: trajectory.start?.at ?? null,
  attempts: trajectory.attempts,
  faults: Object.values(trajectory.faults).reduce((sum, count) => sum + count, 0),
});
