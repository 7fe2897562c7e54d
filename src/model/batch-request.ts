import { z } from 'zod';
import { Duration } from './durations.js';
import { foreignObject } from './foreign-object.js';
import { invalidBatchRequest, preview, problemsOf } from './problems.js';
import { Sample } from './sample.js';
import { writeJson } from '../platform/json/kept.js';
import { utf8Length } from '../platform/utf8.js';
import { TokenId } from './token-id.js';
import type { Limits } from './workflow-safe/limits.js';
import { BATCH_ID } from './workflow-safe/rollout-id.js';

/** The request that starts a batch: the input of workflow `rolloutBatch`. Parsing fills in defaults. */

export const BatchId = z
  .string()
  .regex(BATCH_ID, {
    error: (issue) =>
      `expected a batch id of letters, digits and ._:- (at most 120, beginning with a letter or digit), got ${JSON.stringify(issue.input)}`,
  })
  // Its children would have the workflow ids of policies.
  .refine((id) => id !== 'policy', { error: 'expected another batch id than "policy", got it' });

const bytesOf = (value: unknown): number => utf8Length(writeJson(value));

/** vLLM's kinds of structure; exactly one is given. */
const STRUCTURES = ['json', 'regex', 'choice', 'grammar', 'json_object', 'structural_tag'] as const;
/** Limited, because the journal of each rollout contains it. */
const STRUCTURE_LIMIT = 64 * 1024;

/** A grammar that replies follow, in vLLM's terms (`structured_outputs` of its completions). */
const StructuredOutputs = z
  .strictObject({
    json: z.union([z.string().min(1), foreignObject()]).exactOptional(),
    regex: z.string().min(1).exactOptional(),
    choice: z.array(z.string().min(1)).min(1).exactOptional(),
    grammar: z.string().min(1).exactOptional(),
    json_object: z.literal(true).exactOptional(),
    structural_tag: z.string().min(1).exactOptional(),
    disable_any_whitespace: z.boolean().exactOptional(),
    disable_additional_properties: z.boolean().exactOptional(),
    whitespace_pattern: z.string().exactOptional(),
  })
  .refine((given) => STRUCTURES.filter((kind) => given[kind] !== undefined).length === 1, {
    error: `expected exactly one of ${STRUCTURES.join(', ')}`,
  })
  .refine((given) => bytesOf(given) <= STRUCTURE_LIMIT, {
    error: 'expected at most 64 kB, got more',
  });

/** How the policy is sampled. All of it is sent explicitly, so that no server default changes a distribution. */
export const GenerationSettings = z
  .strictObject({
    /** A key of `generation` in temporal.yaml. */
    service: z.string().default('default'),
    /** null: the service's default. */
    model: z.string().nullable().default(null),
    temperature: z.number().min(0).default(1),
    top_p: z.number().gt(0).max(1).default(1),
    /** -1: off. */
    top_k: z.int().min(-1).default(-1),
    min_p: z.number().min(0).max(1).default(0),
    max_new_tokens: z.int().positive().default(512),
    /** They apply to every turn. The sample's own list is added; its environment may replace that list. */
    stop_strings: z.array(z.string().min(1)).default([]),
    stop_token_ids: z.array(TokenId).default([]),
    /** Sent as temperature 0. */
    greedy: z.boolean().default(false),
    /** No end and no stop string counts before that many tokens. */
    min_tokens: z.int().nonnegative().default(0),
    /** Continues past the end of sequence, up to `max_new_tokens`. */
    ignore_eos: z.boolean().default(false),
    repetition_penalty: z.number().gt(0).default(1),
    presence_penalty: z.number().min(-2).max(2).default(0),
    frequency_penalty: z.number().min(-2).max(2).default(0),
    structured_outputs: StructuredOutputs.nullable().default(null),
    seed: z.int().nullable().default(null),
    include_logprobs: z.boolean().default(true),
    /** Which logprobs are accepted: only those of the sampled distribution, or also the engine's raw ones. */
    logprobs_mode: z.enum(['processed', 'raw']).default('processed'),
    /** For each sampled token, this many of the likeliest ids with their logprobs. */
    top_logprobs: z.int().min(0).max(20).default(0),
    prompt_format: z.enum(['chat', 'raw']).default('chat'),
    /**
     * How an observation is appended: rendered by the chat template after the policy's turn, or its text alone. null:
     * chat under `standard` semantics with a chat prompt. Journals record the result; null in a journal means bare.
     */
    observation_format: z.enum(['chat', 'bare']).nullable().default(null),
    chat_template_kwargs: foreignObject().default({}),
  })
  .prefault({});
export type GenerationSettings = z.infer<typeof GenerationSettings>;

export const Semantics = z.enum(['standard', 'nemo-rl-sync', 'nemo-rl-async']);
export type Semantics = z.infer<typeof Semantics>;

/** How often a turn may fail in one way before its rollout fails. */
export const AttemptSettings = z
  .strictObject({
    /** Exceptions of the environment. */
    environment: z.int().min(1).max(100).default(3),
  })
  .prefault({});

export const Overlong = z.enum(['keep', 'mask', 'drop']);

const METADATA_LIMIT = 4096;
const MOST_REPLACEMENTS = 10_000;
const INLINE_LIMIT = 256 * 1024;

/** Fields that a batch and a rollout started by hand share. */
const rolloutSettings = {
  schema_version: z.literal(1).default(1),
  generation: GenerationSettings,
  /** Limit of the whole message log in tokens. */
  max_seq_len: z.int().positive().default(4096),
  /** 0: no generation at all. */
  max_rollout_turns: z.int().nonnegative().default(100),
  rollout_timeout: Duration.default('1h'),
  attempts: AttemptSettings,
  num_repeats_add_seed: z.boolean().default(false),
  semantics: Semantics.default('standard'),
  /** For a valid but truncated rollout: keep it, keep it with `loss_multiplier` 0, or make it a failure row. */
  overlong: Overlong.default('keep'),
  /** The version of the weights that the service is expected to serve. */
  policy_version: z.string().min(1).max(255).nullable().default(null),
  max_version_span: z.int().positive().nullable().default(null),
  /** Copied to the result, which stays under 16 kB. */
  metadata: foreignObject()
    .refine((metadata) => bytesOf(metadata) <= METADATA_LIMIT, {
      error: 'expected at most 4 kB of metadata, got more',
    })
    .default({}),
};

const InlineSamples = z
  .array(z.unknown())
  .min(1, 'expected at least one sample, got an empty batch')
  .refine((samples) => bytesOf(samples) <= INLINE_LIMIT, {
    error: `expected at most 256 kB of inline samples; write them to a JSONL file and give {"path": …}`,
  });

/** When a group is complete: with all its rollouts, with enough valid ones, or after failed ones were replaced. */
export const Completion = z.discriminatedUnion(
  'policy',
  [
    z.strictObject({ policy: z.literal('complete') }),
    z.strictObject({
      policy: z.literal('min_k'),
      /** Valid rollouts that each group needs. A group that has them stops its other members. */
      k: z.int().positive(),
      /** From the batch's start. Then all remaining rollouts are stopped. null: never. */
      deadline: Duration.nullable().default(null),
    }),
    z.strictObject({
      policy: z.literal('refill'),
      /** How many failed rollouts of the batch are replaced by a new repeat of their sample. */
      max_replacements: z.int().min(1).max(MOST_REPLACEMENTS),
    }),
  ],
  {
    error: ({ input }) => {
      if (typeof input !== 'object' || input === null) return undefined;
      const { policy } = input as { policy?: unknown };
      return `expected "complete", "min_k" or "refill", got ${preview(policy)}`;
    },
  },
);
export type Completion = z.infer<typeof Completion>;

/** Fields that a batch and a stream share. */
export const groupSettings = {
  /** A JSONL file below the worker's `inputs_dir`, or the samples themselves. */
  samples: z.union([z.strictObject({ path: z.string().min(1) }), InlineSamples], {
    error: (issue) =>
      issue.input === undefined
        ? 'required: {"path": "….jsonl"} or a list of samples'
        : Array.isArray(issue.input) && issue.input.length === 0
          ? 'expected at least one sample, got an empty batch'
          : 'expected {"path": "….jsonl"} or a list of samples',
  }),
  limit: z.int().positive().nullable().default(null),
  num_repeats: z.int().min(1).max(300).default(1),
  ...rolloutSettings,
  /** Rollouts running at once. */
  max_in_flight: z.int().positive().default(256),
};

export const BatchRequest = z
  .strictObject({
    ...groupSettings,
    completion: Completion.default({ policy: 'complete' }),
    /** With fewer valid rollouts the batch ends as failed, after writing its files. */
    min_valid: z.int().nonnegative().default(0),
  })
  .superRefine(checkSettings)
  .superRefine(checkCompletion);
export type BatchRequest = z.infer<typeof BatchRequest>;

/** The input of a `rollout` started by hand: a batch of one. */
export const SingleRollout = z
  .strictObject({ sample: Sample, ...rolloutSettings })
  .superRefine(checkSettings);
export type SingleRollout = z.infer<typeof SingleRollout>;

export function toBatchRequest({ sample, ...settings }: SingleRollout): BatchRequest {
  return {
    ...settings,
    samples: [sample],
    limit: null,
    num_repeats: 1,
    max_in_flight: 1,
    completion: { policy: 'complete' },
    min_valid: 0,
  };
}

/** A rollout's place. */
export const RolloutRef = z.strictObject({
  batch_id: BatchId,
  row: z.int().nonnegative(),
  repeat: z.int().nonnegative(),
});
export type RolloutRef = z.infer<typeof RolloutRef>;

/** The input of a batch's child workflow `rollout`. Everything else comes from the store and the plan. */
export const RolloutInput = z.strictObject({
  ...RolloutRef.shape,
  /** For a replacement: the repeat that failed. */
  replaces: z.int().nonnegative().exactOptional(),
});
export type RolloutInput = z.infer<typeof RolloutInput>;

export const observationFormatOf = ({
  generation: { observation_format, prompt_format },
  semantics,
}: Pick<BatchRequest, 'generation' | 'semantics'>): 'chat' | 'bare' =>
  observation_format ?? (semantics === 'standard' && prompt_format === 'chat' ? 'chat' : 'bare');

/** The limits that an update may change. */
export const limitsOf = (
  request: Pick<BatchRequest, 'max_rollout_turns' | 'max_seq_len' | 'rollout_timeout'> & {
    generation: Pick<GenerationSettings, 'max_new_tokens'>;
  },
): Limits => ({
  max_rollout_turns: request.max_rollout_turns,
  max_new_tokens: request.generation.max_new_tokens,
  max_seq_len: request.max_seq_len,
  rollout_timeout: request.rollout_timeout,
});

/** Returns a workflow id as a batch id; throws `InvalidBatchRequest`. */
export function parseBatchId(workflowId: string): string {
  const parsed = BatchId.safeParse(workflowId);
  if (parsed.success) return parsed.data;
  throw invalidBatchRequest([
    { where: 'workflow id', what: parsed.error.issues[0]?.message ?? 'not a batch id' },
  ]);
}

/** Returns whether this input of workflow `rollout` starts it by hand. */
export const isByHand = (input: unknown): boolean =>
  typeof input === 'object' && input !== null && 'sample' in input;

/**
 * The place that an input of workflow `rollout` names. A rollout started by hand is row 0 of the batch named by its
 * workflow id. Throws `InvalidBatchRequest`.
 */
export function placeOf(input: unknown, workflowId: string): RolloutInput {
  if (isByHand(input)) return { batch_id: parseBatchId(workflowId), row: 0, repeat: 0 };
  const parsed = RolloutInput.safeParse(input);
  if (parsed.success) return parsed.data;
  throw invalidBatchRequest(problemsOf(parsed.error, input));
}

/** Checks between fields, for any kind of request. */
export function checkSettings(
  request: { num_repeats_add_seed: boolean; generation: GenerationSettings; semantics: Semantics },
  context: z.RefinementCtx,
): void {
  checkSeeds(request, context);
  checkTokens(request, context);
  checkObservations(request, context);
}

function checkSeeds(
  request: { num_repeats_add_seed: boolean; generation: GenerationSettings },
  context: z.RefinementCtx,
): void {
  if (request.num_repeats_add_seed && request.generation.seed !== null) {
    context.addIssue({
      code: 'custom',
      path: ['generation', 'seed'],
      message: `expected null with num_repeats_add_seed (repeat r has seed r), got ${request.generation.seed}`,
    });
  }
}

function checkTokens(
  { generation }: { generation: GenerationSettings },
  context: z.RefinementCtx,
): void {
  const { min_tokens, max_new_tokens, top_logprobs, include_logprobs } = generation;
  const refuse = (field: string, message: string): void => {
    context.addIssue({ code: 'custom', path: ['generation', field], message });
  };
  if (min_tokens > max_new_tokens)
    refuse('min_tokens', `expected at most max_new_tokens ${max_new_tokens}, got ${min_tokens}`);
  if (top_logprobs > 0 && !include_logprobs)
    refuse('top_logprobs', `expected 0 without include_logprobs, got ${top_logprobs}`);
}

function checkObservations(
  { generation, semantics }: { generation: GenerationSettings; semantics: Semantics },
  context: z.RefinementCtx,
): void {
  if (generation.observation_format !== 'chat') return;
  const { prompt_format } = generation;
  const why =
    prompt_format === 'raw'
      ? 'prompt_format raw'
      : semantics === 'standard'
        ? null
        : `semantics ${semantics}`;
  if (why === null) return;
  context.addIssue({
    code: 'custom',
    path: ['generation', 'observation_format'],
    message: `expected null or "bare" with ${why}, got "chat"`,
  });
}

function checkCompletion(
  { completion, num_repeats }: { completion: Completion; num_repeats: number },
  context: z.RefinementCtx,
): void {
  if (completion.policy !== 'min_k' || completion.k <= num_repeats) return;
  context.addIssue({
    code: 'custom',
    path: ['completion', 'k'],
    message: `expected at most num_repeats ${num_repeats}, got ${completion.k}`,
  });
}
