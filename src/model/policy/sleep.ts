import { z } from 'zod';
import { Duration } from '../durations.js';
import { Holder } from './holder.js';
import { SLEEP_LEVELS } from '../workflow-safe/policy.js';

/** Updates `sleep` and `wake`: engines leave their memory to a trainer on the same GPUs, for a while. */

const Level = z.literal(SLEEP_LEVELS);

export const Sleep = z.object({
  level: Level.default(1).describe(
    '1: the weights wait in the memory of the host; 2: they are dropped, and loaded again from files, or sent',
  ),
  until: Duration.default('10m').describe('they are woken then, whatever has become of the holder'),
  holder: Holder.describe('who needs their memory'),
});
export type Sleep = z.infer<typeof Sleep>;

export const Wake = z.object({
  tags: z
    .array(z.enum(['weights', 'kv_cache', 'scheduling']))
    .min(1)
    .nullable()
    .default(null)
    .describe('`["weights"]`: memory for weights alone, and they serve nothing yet; null: all'),
});
export type Wake = z.infer<typeof Wake>;

/** Engines sleep, as the record has it. */
export const Sleeping = z.object({
  /** The nonce of the update, so that another attempt knows its own. */
  nonce: z.string(),
  holder: Holder,
  level: Level,
  /** Milliseconds since 1970. */
  until: z.number(),
});
export type Sleeping = z.infer<typeof Sleeping>;

/** How a replica was put to sleep. It stays until the replica is `current` again. */
export const Slept = z.object({
  level: Level,
  /** What it said of its weights; null: nothing. */
  label: z.string().nullable(),
  /** Its logprobs of fixed ids; null: it could not be asked. */
  before: z.array(z.number()).nullable(),
});
export type Slept = z.infer<typeof Slept>;
