import { z } from 'zod';

/** Who brings weights to a service: one trainer at a time, by the name that its user gave it. */

const name = z.string().min(1).max(200);

/** Each process of a trainer makes an incarnation of its own. */
export const Holder = z.object({
  name: name.describe('of the trainer, the same after it was restarted'),
  incarnation: name.describe('of its process: made anew at each start'),
});
export type Holder = z.infer<typeof Holder>;

/** Update `release`. */
export const Release = z.object({
  holder: z
    .strictObject({
      name: name.describe('of the trainer'),
      incarnation: name.nullable().default(null).describe('of its process; null: any'),
    })
    .describe('who holds the service'),
});
export type Release = z.infer<typeof Release>;

/** Nobody else may bring weights. */
const Hold = Holder.extend({
  /** When this name began to hold it, in milliseconds since 1970. */
  since: z.number(),
  /** When its last update was, likewise. */
  at: z.number(),
  /** Whose hold it has ended by `take_over`; null: nobody's. */
  took_from: name.nullable(),
});
export type Hold = z.infer<typeof Hold>;

/** Versions that one trainer has brought, up to the next one's first. */
const Course = z.object({
  /** null: it did not say who it is. */
  name: name.nullable(),
  first: z.int(),
  /** What was served when it began; null: nothing that was published. */
  found: z.int().nullable(),
});

export const Holding = z.object({
  hold: Hold.nullable().default(null),
  /** Those that have held it, the newest of each name last: one before it is refused for ever. */
  incarnations: z.array(Holder).default([]),
  /** The last ones, oldest first. */
  courses: z.array(Course).default([]),
});
export type Holding = z.infer<typeof Holding>;

export const NO_HOLDING: Holding = { hold: null, incarnations: [], courses: [] };
