import { z } from 'zod';
import { GREATEST_TOKEN_ID, TokenId } from './token-id.js';

/** What an input may look like, as JSON Schema. What is checked between fields is not in it. */
export const jsonSchemaOf = (schema: z.ZodType): Record<string, unknown> =>
  z.toJSONSchema(schema, { io: 'input', unrepresentable: 'any', override: seeThrough });

/** A check of names in front of a schema (`withPossibleNames`) hides it: what comes behind is what is meant. */
function seeThrough({
  zodSchema,
  jsonSchema,
}: {
  zodSchema: z.core.$ZodTypes;
  jsonSchema: object;
}): void {
  if (zodSchema === TokenId)
    Object.assign(jsonSchema, { type: 'integer', minimum: 0, maximum: GREATEST_TOKEN_ID });
  const { def } = zodSchema._zod;
  if (def.type !== 'pipe' || def.in._zod.def.type !== 'custom') return;
  Object.assign(jsonSchema, jsonSchemaOf(def.out as z.ZodType), { $schema: undefined });
}
