import { z } from 'zod';
import { Content } from '../content.js';
import { foreignObject } from '../foreign-object.js';
import { Failure, Finish, Shaping } from '../journal.js';
import { LOGPROBS_MODES } from '../logprobs-mode.js';
import { PlacedPicture } from '../pictures.js';
import { LossMultiplier } from '../sample.js';
import { TokenId } from '../token-id.js';
import { STOP_REASONS } from '../workflow-safe/stop-reasons.js';

/**
 * The columns of a row. Their descriptions are those of docs/schemas/row.json and of the table in
 * docs/training-data.md, and Python's `RowColumns` has the same fields: `test/docs` holds that.
 */

/** Offsets count the rollout's generated tokens from 0. */
const Run = z.object({
  start: z
    .int()
    .describe(
      'the first of these generated tokens. They are counted from 0 over the whole rollout, without prompt and observations',
    ),
  end: z.int().describe('the one behind the last'),
});

/** Offsets count the ids of its sequence from 0. */
const IdRun = z.object({
  start: z
    .int()
    .describe(
      'the first of these ids. They are counted from 0 over all of `message_log`, prompt and observations included',
    ),
  end: z.int().describe('the one behind the last'),
});

const VersionLabel = z
  .string()
  .nullable()
  .describe('the label of the weights (a number as text, for a published version), or null');

const REQUEST = {
  turn: z.int().describe('its turn, from 0'),
  replica: z.string().describe('base URL of the replica'),
  request_id: z.string().describe("the request, as in the engine's log"),
};

const RowMessage = z.strictObject({
  role: z
    .string()
    .describe('`system`, `user`, `assistant`, or another role of the sample or the environment'),
  content: Content.describe(
    'its text, or the parts of a message with images. `""` for an agent, whose text is in `agent_result`',
  ),
  token_ids: z.array(TokenId).describe('its ids, as they were sent to the engine or sampled'),
  generation_logprobs: z
    .array(z.number())
    .optional()
    .describe(
      'one per id of a sampled message. Observations have none. Prompt messages may have some from the sample; they are no actions of this policy',
    ),
  prompt_logprobs: z
    .array(z.number().nullable())
    .exactOptional()
    .describe(
      "with `prompt_logprobs`, on the prompt's messages: the model's own logprob of each id when the rollout began; null for the first id of all",
    ),
  generation_top_logprobs: z
    .array(z.array(z.tuple([TokenId, z.number()])))
    .exactOptional()
    .describe(
      'with `top_logprobs`: for each sampled token its likeliest `[id, logprob]`, the likeliest first',
    ),
  pictures: z
    .array(PlacedPicture)
    .exactOptional()
    .describe(
      'which of its ids stand for pictures, in their order; the engine has made them of each. A picture that `max_seq_len` cuts has no ids',
    ),
  sampled: z
    .literal(true)
    .exactOptional()
    .describe('in place of logprobs with `include_logprobs: false`: the policy sampled it'),
  partial: z
    .literal(true)
    .exactOptional()
    .describe('in failures.jsonl, on the last message: no environment has answered it'),
  is_invalid_tool_call: z
    .boolean()
    .exactOptional()
    .describe("of an agent's call: its text contains a tool call"),
  has_malformed_thinking: z
    .boolean()
    .exactOptional()
    .describe("of an agent's call: it has a thinking tag where none may be"),
  routed_experts: z
    .array(z.unknown())
    .exactOptional()
    .describe(
      "of an agent's call, if its model server returns them: for each id, the experts that the model chose",
    ),
});

/**
 * Seconds. `wall_s` spans the rollout's start and its end, or the last thing played. The others are sums over its whole
 * turns. An agent's run is one step.
 */
const Timing = z.object({
  queue_s: z
    .number()
    .describe(
      "from a request to its first token: the engine's queue and prefill, summed over whole turns",
    ),
  generate_s: z.number().describe('generation of the whole turns'),
  step_s: z.number().describe("the environment's steps. An agent's run is one step"),
  wall_s: z.number().describe("from the rollout's start to its end, or to the last thing played"),
});
export type Timing = z.infer<typeof Timing>;

/** A line of rollouts.jsonl or failures.jsonl: the sample's columns, and these. */
export const Row = z.looseObject({
  task_name: z.string().describe("the sample's: a key of `environments` in temporal.yaml"),
  idx: z
    .unknown()
    .describe(
      "the sample's own, else its `row`. Under `nemo-rl-async` always the `row`; under `nemo-rl-sync` only the sample's own",
    )
    .optional(),
  loss_multiplier: LossMultiplier.optional().describe(
    "the sample's value (0 to 1,000,000), or 1; NeMo RL's semantics add no column, which also means 1. With 0, do not train on the row; `overlong: mask` sets it for truncated rollouts, and `mask_sample` for an agent's",
  ),
  stop_strings: z
    .array(z.string())
    .nullish()
    .describe("the sample's own. Under `nemo-rl-sync`: those in force at the end"),
  schema_version: z.literal(1).describe('the version of this format'),
  rollout_id: z
    .string()
    .describe("`<batch_id>/<row>-<repeat>`, which is also the id of the rollout's workflow"),
  batch_id: z.string().describe('the id of the batch or stream'),
  row: z
    .int()
    .describe(
      'the place of its sample in the input, from 0; in a stream the number of its group. Rollouts of one row are a group: they share a baseline',
    ),
  repeat: z
    .int()
    .describe('its place in the group, from 0. Replacements are numbered from `num_repeats` on'),
  replaces: z
    .int()
    .exactOptional()
    .describe('of a replacement: the repeat of this row that failed'),
  message_log: z
    .array(RowMessage)
    .describe(
      'the prompt, then generation and observation of each turn. The concatenated `token_ids` are exactly what the engine was sent and what it sampled; nothing is rendered or encoded again',
    ),
  extra_env_info: foreignObject().describe(
    "the environment's state as it ended; it began as the sample's",
  ),
  prompt_tokens: z.int().describe('how many ids precede the first generated one'),
  total_reward: z.number().describe('the sum of the rewards of whole turns'),
  rewards: z
    .record(z.string(), z.number())
    .describe('that sum by component, where the environment names components; else `{}`'),
  turn_rewards: z.array(z.number()).describe('the reward of each whole turn'),
  finish_reasons: z
    .array(Finish.shape.finish_reason)
    .describe(
      'how the engine ended each whole turn: by itself or at a stop string or stop token (`stop`), or at `max_new_tokens` or `max_seq_len` (`length`)',
    ),
  stop_reason: z
    .enum(STOP_REASONS)
    .describe(
      'what ended it. `terminated`: the environment. `truncated`: a length limit. `max_turns`: `max_rollout_turns`. Only these three are valid rollouts; the others are in failures.jsonl. `timeout`: `rollout_timeout` passed. `stopped`: signal `stop`, or a group that had enough. `cancelled`: a cancellation, or it never started. `failed`: a fault, or `overlong: drop`',
    ),
  terminated: z.boolean().describe('the environment ended it; an agent answered'),
  truncated: z
    .boolean()
    .describe(
      'a limit cut it (`max_new_tokens`, `max_seq_len`, or a limit of the environment). It may be terminated, too, because an environment may grade a truncated turn',
    ),
  max_turns_reached: z
    .boolean()
    .describe(
      '`max_rollout_turns` ended it. Under `nemo-rl-async`: it played as many turns, whatever ended it',
    ),
  turn_count: z
    .int()
    .describe('whole turns: generations that the environment answered. Of an agent: its calls'),
  total_tokens: z.int().describe('`assistant_tokens` and `env_tokens`, without the prompt'),
  assistant_tokens: z.int().describe('tokens that the policy sampled, in whole turns'),
  env_tokens: z.int().describe('tokens of observations'),
  train_mask: z
    .array(IdRun)
    .describe(
      'which ids to train on: runs over the ids of `message_log`, in order and not adjacent. It has what the policy sampled, without `masked`; it is `[]` for a failure and with `loss_multiplier` 0. Rows of releases before it lack it',
    ),
  policy_versions: z
    .array(Run.extend({ version: VersionLabel }))
    .describe('which weights sampled which tokens: runs over the generated tokens'),
  version_source: z
    .enum(['engine', 'record', 'none'])
    .describe(
      "where these versions come from, for the least certain token. `engine`: it named the weights of each token, or was asked. `record`: the policy's record. `none`: at least one is null",
    ),
  segments: z
    .array(Run.extend(REQUEST))
    .describe('which replica and request sampled which tokens: runs over the generated tokens'),
  attempts: z
    .int()
    .describe(
      'executions that played it: 1 for an undisturbed rollout, and one more for each resumption',
    ),
  restarted_turns: z
    .array(z.int())
    .describe(
      'turns that were cut and sampled again from their beginning, because the settings allow no continuation or the weights changed',
    ),
  logprobs_mode: z
    .enum(LOGPROBS_MODES)
    .nullable()
    .describe(
      'the distribution of all its logprobs: `processed`, `raw`, or `unknown` (also if replicas differ); null: it has none',
    ),
  timing: Timing.describe('seconds'),
  extracted_answer: z
    .string()
    .exactOptional()
    .describe("the last answer that the environment extracted from the policy's text"),
  agent_result: z
    .unknown()
    .exactOptional()
    .describe(
      "of an agent's rollout: its last answer, parsed, without the tokens that `message_log` has",
    ),
  untokenized: z
    .string()
    .exactOptional()
    .describe("of an agent's rollout without tokens: why `message_log` is empty"),
  reward_shaping: Shaping.exactOptional().describe(
    "of an agent's rollout whose environment has `effort_levels` or `reward_penalties`: what they made of its reward",
  ),
  failure: Failure.exactOptional().describe('in failures.jsonl: why it is no row to train on'),
  sample_row: z
    .int()
    .exactOptional()
    .describe("in a stream: the place of the group's sample in the input"),
  epoch: z.int().exactOptional().describe('in a stream: how often all samples were played before'),
  step: z.int().exactOptional().describe('in a stream: the step that delivers it'),
  token_lag: z
    .int()
    .nullable()
    .exactOptional()
    .describe(
      'in a stream: how many versions its oldest token is behind the weights that train on it; null: nobody knows',
    ),
  masked: z
    .array(Run)
    .exactOptional()
    .describe(
      'in a stream with `when_stale: mask`: runs of generated tokens that are too old to train on. `train_mask` is without them',
    ),
});
export type Row = z.infer<typeof Row>;
