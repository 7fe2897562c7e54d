import { z } from 'zod';
import { GREATEST_TOKEN_ID, TokenId } from './token-id.js';

/** The JSON Schema of an input. It lacks the checks between fields. */
export const jsonSchemaOf = (schema: z.ZodType): Record<string, unknown> =>
  z.toJSONSchema(schema, { io: 'input', unrepresentable: 'any', override: seeThrough });

type Overridden = Parameters<NonNullable<z.core.ToJSONSchemaParams['override']>>[0];

/** A check of names (`withPossibleNames`) is a pipe; the schema after it is the one to show. */
function seeThrough({ zodSchema, jsonSchema }: Overridden): void {
  if (zodSchema === TokenId)
    Object.assign(jsonSchema, { type: 'integer', minimum: 0, maximum: GREATEST_TOKEN_ID });
  const { def } = zodSchema._zod;
  if (def.type !== 'pipe' || def.in._zod.def.type !== 'custom') return;
  Object.assign(jsonSchema, jsonSchemaOf(def.out as z.ZodType), { $schema: undefined });
}
