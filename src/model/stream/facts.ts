import { z } from 'zod';
import { Count } from '../field-kinds.js';
import { FailuresByType } from '../results/answers.js';
import { OUTS } from '../workflow-safe/stream/state.js';

/** Facts that a stream puts into the store, each once, before anything follows from them. */

const Version = z.int().nullable();
const Group = Count;

/** `born`: the version served when it was admitted: no token of it is older; null: no version was known. */
export const Admitted = z.strictObject({ group: Group, born: Version });
export type Admitted = z.infer<typeof Admitted>;

export const GroupEnd = z.strictObject({
  group: Group,
  outcome: z.enum(['complete', 'filtered', 'untrained', 'failed']),
  valid: Count,
  /** All started members, replacements included. */
  members: Count,
  /** The failures of members in the group's last run; absent: none. */
  failures: FailuresByType.exactOptional(),
});
export type GroupEnd = z.infer<typeof GroupEnd>;

export const Dropped = z.strictObject({ group: Group });

export const Forgotten = z.strictObject({ through: Count });

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
  members: Count.nullable(),
});
export type DeliveredGroup = z.infer<typeof DeliveredGroup>;

const OutGroup = z.strictObject({ group: Group, as: z.enum(OUTS) });
export type OutGroup = z.infer<typeof OutGroup>;

/** `steps/<step>/step.json`, as the stream puts it. */
export const StepFact = z.strictObject({
  schema_version: z.literal(1),
  step: Count,
  /** The version of the weights that train on it; null: none was ever known. */
  version: Version,
  /** Delivered with it, by number. */
  groups: z.array(Group),
  /** The last step: the epochs are used up. */
  final: z.boolean(),
  /** Groups that run or wait at that time. */
  open: z.array(Group),
  out: z.array(OutGroup),
  /** Groups of the stream's whole life. */
  admitted: Count,
  totals: z.strictObject({ ...OutCounts, delivered: z.int() }),
  /** When the step is put; `admitted` and those of `Out` count since the previous step. */
  counts: z.strictObject({ in_flight: z.int(), banked: z.int(), admitted: z.int(), ...OutCounts }),
});
export type StepFact = z.infer<typeof StepFact>;

/** As the store has it: with what was delivered of its groups, in the same order. */
export const StoredStep = StepFact.extend({ delivered: z.array(DeliveredGroup) });
export type StoredStep = z.infer<typeof StoredStep>;
