import { z } from 'zod';
import {
  Count,
  Duration,
  Flag,
  On,
  Positive,
  Word,
  integerIn,
  numberIn,
  orNull,
  refuserOf,
} from './field-kinds.js';
import { foreignObject } from './foreign-object.js';
import { Fork } from './fork.js';
import { GenerationSettings } from './generation-settings.js';
import { AttemptSettings, Overlong, TrainResampled, TrainSeparate } from './play-settings.js';
import { invalidBatchRequest, preview, problemsOf } from './problems.js';
import { Sample } from './sample.js';
import { isUpstream, Semantics } from './semantics.js';
import { writeJson } from '../platform/json/kept.js';
import { isRecord } from '../platform/json/object.js';
import { utf8Length } from '../platform/utf8.js';
import type { Limits } from './workflow-safe/limits.js';
import { BATCH_ID, placeOfRollout } from './workflow-safe/rollout-id.js';

/** The request that starts a batch: the input of workflow `rolloutBatch`. Parsing fills in defaults. */

export const BatchId = z
  .string()
  .regex(BATCH_ID, {
    error: (issue) =>
      `expected a batch id of letters, digits and ._:- (at most 120, beginning with a letter or digit), got ${JSON.stringify(issue.input)}`,
  })
  // Its children would have the workflow ids of policies.
  .refine((id) => id !== 'policy', {
    error: 'expected a batch id other than "policy", got "policy"',
  });

const bytesOf = (value: unknown): number => utf8Length(writeJson(value));

const METADATA_LIMIT = 4096;
const MOST_REPLACEMENTS = 10_000;
const INLINE_LIMIT = 256 * 1024;

/** Fields that a batch and a rollout started by hand share. */
const rolloutSettings = {
  schema_version: z.literal(1).default(1).describe('the version of this format'),
  generation: GenerationSettings.describe(
    'sampling settings. All of them are sent, so no default of a server changes the distribution',
  ),
  max_seq_len: Positive.default(4096).describe('limit of the whole message log, in tokens'),
  max_prompt_tokens: orNull(Positive).describe(
    "limit of the sample's prompt, in tokens. A longer one fails as `PromptTooLong`. Not for agents; null: `max_seq_len` alone",
  ),
  max_rollout_turns: Count.default(100).describe('limit of turns; 0: no generation at all'),
  rollout_timeout: Duration.default('1h').describe("limit of time, from the rollout's start"),
  attempts: AttemptSettings.describe(
    'how often a turn may fail in one way before its rollout fails',
  ),
  num_repeats_add_seed: Flag.describe(
    'repeat r gets seed r. Further epochs of a stream get others',
  ),
  semantics: Semantics.default('standard').describe(
    '`standard`, or a loop of NeMo RL, number for number. `nemo-rl` is that of commit 7ea279ab (2026-08). `nemo-rl-sync` and `nemo-rl-async` are of 41791c7f (2025-06), and play on after a reply cut at `max_new_tokens`',
  ),
  overlong: Overlong.default('keep').describe(
    'a valid but truncated rollout: `keep` its row, `mask` it with `loss_multiplier` 0, or `drop` it into failures.jsonl',
  ),
  train_resampled: TrainResampled.default('winner').describe(
    "which of an agent's answers to one question train. `winner`: those that it continued, or all if it continued none. `none`: only those that it continued. `all`: all",
  ),
  train_separate: TrainSeparate.default('all').describe(
    "which of an agent's conversations beside its main one train (helpers, titles): `all`, those `with_tools`, or `none`",
  ),
  policy_version: orNull(Word.max(255)).describe(
    'the version that the service is expected to serve, checked at planning',
  ),
  max_version_span: orNull(Positive).describe(
    'how many policy versions one turn may contain; null: any number',
  ),
  metadata: foreignObject()
    .refine((metadata) => bytesOf(metadata) <= METADATA_LIMIT, {
      error: 'expected at most 4 kB of metadata, got more',
    })
    .default({})
    .describe('copied to the result; at most 4 kB'),
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
    z.strictObject({ policy: z.literal('complete').describe('every rollout is played once') }),
    z.strictObject({
      policy: z.literal('min_k').describe('a group ends with k valid rollouts'),
      k: Positive.describe(
        'valid rollouts that each group needs. A group that has them stops its other members',
      ),
      deadline: orNull(Duration).describe(
        "time from the batch's start after which all remaining rollouts are stopped; null: never",
      ),
    }),
    z.strictObject({
      policy: z.literal('refill').describe('failed rollouts are replaced'),
      max_replacements: z
        .int()
        .min(1)
        .max(MOST_REPLACEMENTS)
        .describe('how many failed rollouts of the batch are replaced'),
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
  samples: z
    .union(
      [
        z.strictObject({
          path: Word.describe(
            "path below the worker's `inputs_dir`. If that is in a bucket, an address below it is allowed, too",
          ),
        }),
        z.strictObject({
          batch: BatchId.describe('a batch or a stream of the store: its samples, as it has them'),
        }),
        InlineSamples,
      ],
      {
        error: (issue) =>
          issue.input === undefined
            ? 'required: {"path": "….jsonl"}, {"batch": "…"} or a list of samples'
            : Array.isArray(issue.input) && issue.input.length === 0
              ? 'expected at least one sample, got an empty batch'
              : 'expected {"path": "….jsonl"}, {"batch": "…"} or a list of samples',
      },
    )
    .describe(
      "a JSONL file below the worker's `inputs_dir`, a batch that has them, or a list of up to 256 kB",
    ),
  limit: orNull(Positive).describe('only the first n samples; null: all'),
  num_repeats: integerIn([1, 300], 1).describe('rollouts per sample'),
  ...rolloutSettings,
  max_in_flight: Positive.default(256).describe('how many rollouts run at once'),
  priority: integerIn([1, 5], 3).describe('1 to 5. Free slots go to lower numbers first'),
  share: numberIn([0.001, 1000], 1).describe(
    'weight of this batch beside others of the same priority. One with 2 gets twice the slots of one with 1',
  ),
};

export const BatchRequest = z
  .strictObject({
    ...groupSettings,
    completion: Completion.default({ policy: 'complete' }).describe(
      'when a group is complete: with all its rollouts, with enough valid ones, or after failed ones are replaced',
    ),
    min_valid: Count.default(1).describe(
      'with fewer valid rollouts, the batch writes its files and fails, unless it was stopped; 0: never',
    ),
    rollout_workflows: On.describe(
      'each rollout has a workflow of its own. false, for agents only: their slice plays them, at a fraction of the cost',
    ),
    fork: Fork.exactOptional().describe(
      'each rollout continues this one of another batch, from a turn or a token on',
    ),
  })
  .superRefine(checkSettings)
  .superRefine(checkCompletion)
  .superRefine(checkFork);
export type BatchRequest = z.infer<typeof BatchRequest>;

/** The input of a `rollout` started by hand: a batch of one. */
export const SingleRollout = z
  .strictObject({ sample: Sample.describe('as a line of `samples`'), ...rolloutSettings })
  .superRefine(checkSettings);
export type SingleRollout = z.infer<typeof SingleRollout>;

export const toBatchRequest = ({ sample, ...settings }: SingleRollout): BatchRequest => ({
  ...BatchRequest.parse({ samples: [0] }),
  ...settings,
  samples: [sample],
  max_in_flight: 1,
});

/** A rollout's place in its batch: row of the input and member of the row's group, both from 0. */
export const RolloutRef = z.strictObject({
  batch_id: BatchId,
  row: Count,
  repeat: Count,
});
export type RolloutRef = z.infer<typeof RolloutRef>;

/** The input of a batch's child workflow `rollout`. Everything else comes from the store and the plan. */
export const RolloutInput = z.strictObject({
  ...RolloutRef.shape,
  /** For a replacement: the repeat that failed. */
  replaces: Count.exactOptional(),
});
export type RolloutInput = z.infer<typeof RolloutInput>;

export const observationFormatOf = ({
  generation: { observation_format, prompt_format },
  semantics,
}: Pick<BatchRequest, 'generation' | 'semantics'>): 'chat' | 'bare' =>
  observation_format ?? (!isUpstream(semantics) && prompt_format === 'chat' ? 'chat' : 'bare');

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

export const isByHand = (input: unknown): boolean =>
  typeof input === 'object' && input !== null && 'sample' in input;

/** One that is started by hand is row 0 of the batch of its workflow id. Throws `InvalidBatchRequest`. */
export function placeOf(input: unknown, workflowId: string): RolloutInput {
  if (isByHand(input)) return { batch_id: parseBatchId(workflowId), row: 0, repeat: 0 };
  const parsed = RolloutInput.safeParse(input);
  if (parsed.success) return parsed.data;
  throw invalidBatchRequest(problemsOf(parsed.error, input));
}

/** Whether an input of workflow `rolloutBatch` only says how it differs from the request of another batch. */
export const isFilledIn = (input: unknown): input is object =>
  isRecord(input) && ('like' in input || ('fork' in input && !('samples' in input)));

function checkFork(
  { fork, samples }: { fork?: Fork; samples: unknown },
  context: z.RefinementCtx,
): void {
  if (fork === undefined) return;
  const batch = placeOfRollout(fork.rollout_id)?.batch_id;
  if (isRecord(samples) && samples['batch'] === batch) return;
  const message = `expected none beside fork: they are those of its batch, {"batch": "${batch}"}`;
  refuserOf(context)(['samples'], message);
}

function checkCompletion(
  { completion, num_repeats }: { completion: Completion; num_repeats: number },
  context: z.RefinementCtx,
): void {
  if (completion.policy !== 'min_k' || completion.k <= num_repeats) return;
  const message = `expected at most num_repeats ${num_repeats}, got ${completion.k}`;
  refuserOf(context)(['completion', 'k'], message);
}

interface Checked {
  num_repeats_add_seed: boolean;
  generation: GenerationSettings;
  semantics: Semantics;
}

export function checkSettings(
  { num_repeats_add_seed, generation, semantics }: Checked,
  context: z.RefinementCtx,
): void {
  const refuse = (field: string, message: string): void => {
    refuserOf(context)(['generation', field], message);
  };
  const { seed, min_tokens, max_new_tokens, top_logprobs, include_logprobs } = generation;
  if (num_repeats_add_seed && seed !== null)
    refuse('seed', `expected null with num_repeats_add_seed (repeat r has seed r), got ${seed}`);
  if (min_tokens > max_new_tokens)
    refuse('min_tokens', `expected at most max_new_tokens ${max_new_tokens}, got ${min_tokens}`);
  if (top_logprobs > 0 && !include_logprobs)
    refuse('top_logprobs', `expected 0 without include_logprobs, got ${top_logprobs}`);
  if (generation.observation_format !== 'chat') return;
  const upstream = isUpstream(semantics) ? `semantics ${semantics}` : null;
  const why = generation.prompt_format === 'raw' ? 'prompt_format raw' : upstream;
  if (why !== null) refuse('observation_format', `expected null or "bare" with ${why}, got "chat"`);
}
