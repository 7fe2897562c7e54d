import { z } from 'zod';
import { OUTS } from '../workflow-safe/stream/state.js';

/** Facts that a stream puts into the store, each once, before anything follows from them. */

const Version = z.int().nullable();
const Group = z.int().nonnegative();

export const Admitted = z.strictObject({ group: Group, born: Version });

export const GroupEnd = z.strictObject({
  group: Group,
  outcome: z.enum(['complete', 'filtered', 'untrained', 'failed']),
  valid: z.int().nonnegative(),
  members: z.int().nonnegative(),
  failures: z
    .record(
      z.string(),
      z.strictObject({
        rollouts: z.int(),
        message: z.string(),
        example: z.string().exactOptional(),
      }),
    )
    .exactOptional(),
});

export const Dropped = z.strictObject({ group: Group });

export const Forgotten = z.strictObject({ through: z.int().nonnegative() });

const OutCounts = {
  filtered: z.int(),
  untrained: z.int().exactOptional(),
  dropped: z.int(),
  failed: z.int(),
};

/** What a step needs of each of its groups; null: the store did not know it. */
export const DeliveredGroup = z.strictObject({
  group: Group,
  born: Version,
  members: z.int().nonnegative().nullable(),
});

export const StepFact = z.strictObject({
  schema_version: z.literal(1),
  step: z.int().nonnegative(),
  version: Version,
  groups: z.array(Group),
  /** What was delivered of the same groups, in the same order. Facts of earlier releases do not have it. */
  delivered: z.array(DeliveredGroup).exactOptional(),
  final: z.boolean(),
  open: z.array(Group),
  out: z.array(z.strictObject({ group: Group, as: z.enum(OUTS) })),
  admitted: z.int().nonnegative(),
  totals: z.strictObject({ ...OutCounts, delivered: z.int() }),
  counts: z.strictObject({ in_flight: z.int(), banked: z.int(), admitted: z.int(), ...OutCounts }),
});
