import { z } from 'zod';
import { problemsOf } from '../../src/model/problems.js';
import { ScriptError } from './scripts.js';

/**
 * The required body of a completion: it has every sampling parameter, since a server replaces missing ones with its own
 * defaults, and no field that the wire does not have.
 */
export const CompletionBody = z.strictObject({
  model: z.string(),
  prompt: z.array(z.int().nonnegative()).min(1),
  max_tokens: z.int(),
  n: z.literal(1),
  temperature: z.number(),
  top_p: z.number(),
  top_k: z.number(),
  min_p: z.number(),
  repetition_penalty: z.literal(1),
  presence_penalty: z.literal(0),
  frequency_penalty: z.literal(0),
  min_tokens: z.literal(0),
  ignore_eos: z.literal(false),
  skip_special_tokens: z.literal(true),
  include_stop_str_in_output: z.literal(true),
  stream: z.literal(true),
  stream_options: z.strictObject({
    include_usage: z.literal(true),
    continuous_usage_stats: z.literal(true),
  }),
  return_token_ids: z.literal(true),
  return_weight_versions: z.literal(true),
  logprobs: z.literal(0).optional(),
  stop: z.array(z.string().min(1)).min(1).optional(),
  stop_token_ids: z.array(z.int()).min(1).optional(),
  seed: z.int().optional(),
});
export type CompletionBody = z.infer<typeof CompletionBody>;

export function parseCompletion(body: unknown): CompletionBody {
  const parsed = CompletionBody.safeParse(body);
  if (parsed.success) return parsed.data;
  const problems = problemsOf(parsed.error, body).map(({ where, what }) => `${where}: ${what}`);
  throw new ScriptError(`the body of a completion: ${problems.join('; ')}`);
}
