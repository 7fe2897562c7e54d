import { z } from 'zod';
import {
  Count,
  Flag,
  On,
  Positive,
  PositiveNumber,
  Word,
  Words,
  integerIn,
  maybe,
  numberIn,
  oneOf,
  orNull,
} from './field-kinds.js';
import { writeJson } from '../platform/json/kept.js';
import { utf8Length } from '../platform/utf8.js';
import { foreignObject } from './foreign-object.js';
import { TokenId } from './token-id.js';

/** vLLM's kinds of structure; exactly one is given. */
const STRUCTURES = ['json', 'regex', 'choice', 'grammar', 'json_object', 'structural_tag'] as const;
/** Limited, because the journal of each rollout contains it. */
const STRUCTURE_LIMIT = 64 * 1024;

/** A grammar that replies follow, in vLLM's terms (`structured_outputs` of its completions). */
const StructuredOutputs = z
  .strictObject({
    json: z.union([Word, foreignObject()]).exactOptional().describe('a JSON Schema, or its text'),
    regex: Word.exactOptional().describe('a regular expression'),
    choice: z.array(Word).min(1).exactOptional().describe('the possible replies'),
    grammar: Word.exactOptional().describe('a context-free grammar'),
    json_object: maybe(z.literal(true), 'any JSON object'),
    structural_tag: Word.exactOptional().describe('structures between tags, as JSON text'),
    disable_any_whitespace: maybe(z.boolean(), 'JSON without optional whitespace'),
    disable_additional_properties: maybe(
      z.boolean(),
      'objects have only the fields of their schema',
    ),
    whitespace_pattern: maybe(z.string(), 'a regular expression of the whitespace in JSON'),
  })
  .refine((given) => STRUCTURES.filter((kind) => given[kind] !== undefined).length === 1, {
    error: `expected exactly one of ${STRUCTURES.join(', ')}`,
  })
  .refine((given) => utf8Length(writeJson(given)) <= STRUCTURE_LIMIT, {
    error: 'expected at most 64 kB, got more',
  });

export const GenerationSettings = z
  .strictObject({
    service: z.string().default('default').describe('a key of `generation` in temporal.yaml'),
    model: orNull(z.string()).describe('name of the served model; null: that of the service'),
    temperature: z.number().min(0).default(1).describe('divides the logits'),
    top_p: PositiveNumber.max(1)
      .default(1)
      .describe('samples from the likeliest tokens that have this probability together'),
    top_k: z
      .int()
      .min(-1)
      .default(-1)
      .describe('samples from the k likeliest tokens; -1: from all'),
    min_p: numberIn([0, 1], 0).describe(
      'drops tokens that are less likely than this share of the likeliest one',
    ),
    max_new_tokens: Positive.default(512).describe('limit of one turn'),
    stop_strings: Words.describe(
      "texts that end every turn, beside those of the sample. The environment may replace the sample's",
    ),
    stop_token_ids: z.array(TokenId).default([]).describe('ids that end every turn'),
    greedy: Flag.describe('always takes the likeliest token. It is sent as temperature 0'),
    min_tokens: Count.default(0).describe(
      'least number of tokens of a turn. Before it, ids that end a sequence and `stop_token_ids` are masked, and stop strings do not count',
    ),
    ignore_eos: Flag.describe('continues past the end of sequence, up to `max_new_tokens`'),
    repetition_penalty: PositiveNumber.default(1).describe(
      'penalty of tokens that the prompt or the reply has; 1: none',
    ),
    presence_penalty: numberIn([-2, 2], 0).describe(
      'penalty of tokens that the reply has; 0: none',
    ),
    frequency_penalty: numberIn([-2, 2], 0).describe(
      'penalty of tokens by their number in the reply; 0: none',
    ),
    bad_words: Words.describe('texts that replies never have. vLLM masks the last token of each'),
    structured_outputs: orNull(StructuredOutputs).describe(
      "a structure that replies follow, in vLLM's terms; exactly one of the first six fields",
    ),
    seed: orNull(z.int()).describe(
      'seed of the batch. Each request gets its own, made of this, the row, the repeat, the turn and the tokens before it; null: none is sent',
    ),
    include_logprobs: On.describe('rows have the logprob of each sampled token'),
    logprobs_mode: oneOf(['processed', 'raw'], 'processed').describe(
      '`processed`: logprobs must be of the sampled distribution. `raw`: those of the model at temperature 1 are accepted, too',
    ),
    top_logprobs: integerIn([0, 20], 0).describe(
      'number of likeliest ids, with their logprobs, that rows have for each sampled token',
    ),
    prompt_logprobs: Flag.describe(
      "rows have the model's logprob of each prompt token, from the weights that serve when the rollout begins",
    ),
    prompt_format: oneOf(['chat', 'raw'], 'chat').describe(
      '`chat`: the chat template renders the prompt. `raw`: the texts are encoded one after the other',
    ),
    // Journals record the result; null in a journal means bare.
    observation_format: orNull(z.enum(['chat', 'bare'])).describe(
      'how an observation is appended. `chat`: rendered by the chat template. `bare`: its text alone. null: `chat` under `standard` semantics with a chat prompt, else `bare`',
    ),
    chat_template_kwargs: foreignObject().default({}).describe('arguments of the chat template'),
  })
  .prefault({});
export type GenerationSettings = z.infer<typeof GenerationSettings>;
