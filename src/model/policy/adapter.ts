import { z } from 'zod';

/** Adapters (LoRA) as the record has them: weights beside those of an engine, under a name that is their label. */

/** One of the policies that a replica samples from. */
export const ServedAdapter = z.object({
  /** null: nobody has published the weights. */
  version: z.int().nullable(),
  /** As requests name it; null: the weights alone. */
  name: z.string().nullable(),
});
export type ServedAdapter = z.infer<typeof ServedAdapter>;

/** What a version is, if it is an adapter. */
export const AdapterOf = z.object({
  name: z.string(),
  /** The version of the weights that it was published for; null: those that engines start with. */
  base: z.int().nullable(),
  keep_adapters: z.int(),
});
export type AdapterOf = z.infer<typeof AdapterOf>;

/** An adapter whose files somebody may still need. */
export const KeptAdapter = z.object({ version: z.int(), path: z.string() });
export type KeptAdapter = z.infer<typeof KeptAdapter>;
