import { z } from 'zod';
import { count, maybe, text, bool, number } from '../field-kinds.js';
import { foreignObject } from '../foreign-object.js';
import { Failure, Shaping } from '../journal.js';
import { LossMultiplier } from '../logprob.js';
import { LOGPROBS_MODES } from '../logprobs-mode.js';
import { STOP_REASONS } from '../workflow-safe/stop-reasons.js';
import {
  AllTokens,
  finishReasons,
  masked,
  overSpan,
  ProgramEnd,
  requestRuns,
  RowMessage,
  RowSequence,
  Timing,
  trainMask,
  versionRuns,
} from './row-parts.js';

/**
 * The columns of a row. Their descriptions are those of docs/schemas/row.json and of the table in
 * docs/columns.md, and Python's `RowColumns` has the same fields: `test/docs` holds that.
 */

/** A line of rollouts.jsonl or failures.jsonl: the sample's columns, and these. */
export const Row = z.looseObject({
  task_name: text('task of the sample: a key of `environments` in temporal.yaml'),
  idx: z
    .unknown()
    .describe(
      "`idx` of the sample, else its `row`. Under `nemo-rl` and `nemo-rl-async` always the `row`; under `nemo-rl-sync` only the sample's",
    )
    .optional(),
  loss_multiplier: LossMultiplier.optional().describe(
    "factor of the row's loss (0 to 1,000,000), from the sample; absent: 1. With 0, do not train on the row: `overlong: mask` sets it for truncated rollouts, and `mask_sample` for an agent's",
  ),
  stop_strings: z
    .array(z.string())
    .nullish()
    .describe('those of the sample. Under `nemo-rl-sync`: those in force at the end'),
  schema_version: z.literal(1).describe('the version of this format'),
  rollout_id: text("`<batch_id>/<row>-<repeat>`, which is also the id of the rollout's workflow"),
  batch_id: text('the id of the batch or stream'),
  row: count(
    'place of the sample in the input, from 0; in a stream the number of the group. Rollouts of one row are a group, and share a baseline',
  ),
  repeat: count('place in the group, from 0. Replacements are numbered from `num_repeats` on'),
  replaces: maybe(z.int(), 'of a replacement: the repeat of this row that failed'),
  semantics: maybe(z.string(), "the request's `semantics`, where they are not `standard`"),
  message_log: z
    .array(RowMessage)
    .describe(
      'the prompt, then generation and observation of each turn. The joined `token_ids` are exactly the ids that the engine got and sampled',
    ),
  extra_env_info: foreignObject().describe(
    "last state of the environment, which began as the sample's. The state that an ending turn returns is dropped",
  ),
  prompt_tokens: count('number of ids before the first generated one'),
  total_reward: number(
    'sum of the rewards of whole turns. In failures.jsonl it is often 0, and no reward',
  ),
  rewards: z
    .record(z.string(), z.number())
    .describe('sum by component, if the environment names components; else `{}`'),
  turn_rewards: z.array(z.number()).describe('the reward of each whole turn'),
  finish_reasons: finishReasons,
  stop_reason: z
    .enum(STOP_REASONS)
    .describe(
      'what ended it. `terminated`: the environment. `truncated`: a limit of length, or of the environment. `max_turns`: `max_rollout_turns`. Only these three are valid rollouts; the others are in failures.jsonl. `timeout`: `rollout_timeout` passed. `stopped`: signal `stop`, or a group that had enough. `cancelled`: a cancellation, or it never started. `failed`: a fault, or `overlong: drop`',
    ),
  terminated: bool('the environment, or the end of an agent, ended it'),
  truncated: bool(
    'a limit cut it (`max_new_tokens`, `max_seq_len`, or one of the environment). It may be `terminated`, too: an environment may grade a cut turn',
  ),
  max_turns_reached: bool(
    '`max_rollout_turns` ended it. Under `nemo-rl` and `nemo-rl-async`: it played as many turns, whatever ended it',
  ),
  turn_count: count(
    'whole turns: generations that the environment answered. Of an agent: its calls; where it asks for answers, those of the main sequence',
  ),
  total_tokens: count('`assistant_tokens` and `env_tokens`, without the prompt'),
  assistant_tokens: count('tokens that the policy sampled, in whole turns'),
  env_tokens: count('tokens of observations'),
  train_mask: trainMask,
  policy_versions: versionRuns,
  version_source: z
    .enum(['engine', 'record', 'none'])
    .describe(
      "source of the versions, for the least certain token. `engine`: the engine named them. `record`: the policy's record. `none`: at least one is null",
    ),
  segments: requestRuns,
  attempts: count('executions that played it: 1, and one more for each time that it was resumed'),
  restarted_turns: z
    .array(z.int())
    .describe(
      'turns that were cut and started over, because the settings or changed weights allow no continuation',
    ),
  logprobs_mode: z
    .enum(LOGPROBS_MODES)
    .nullable()
    .describe(
      'distribution of all its logprobs. `unknown` also if replicas differ; null: it has none',
    ),
  timing: Timing.describe('seconds'),
  extracted_answer: maybe(
    z.string(),
    "the last answer that the environment extracted from the policy's text",
  ),
  agent_result: maybe(z.unknown(), 'of an agent of NeMo Gym: its last answer'),
  untokenized: maybe(
    z.string(),
    'of an agent of NeMo Gym, without tokens: why `message_log` is empty',
  ),
  reward_shaping: maybe(
    Shaping,
    'with `effort_levels` or `reward_penalties` of kind `gym_agent`: how they changed the reward',
  ),
  sequences: maybe(
    z.array(RowSequence),
    "of an agent: its sequences beside the main one, which is the row's `message_log`. Each sampled token is in exactly one",
  ),
  calls: maybe(z.int(), 'of an agent: how many calls it made'),
  lives: maybe(z.int(), 'of an agent: how often it was started'),
  unanswered: maybe(z.int(), 'of an agent: calls whose answer it never got whole'),
  malformed_calls: maybe(z.int(), 'of an agent: tool calls that do not parse, and stayed text'),
  structured_calls: maybe(
    z.int(),
    'of an agent: calls with a structure that it asked for (`response_format`); absent: none',
  ),
  resampled: maybe(z.int(), 'of an agent: calls that asked for another answer to the same'),
  program_end: maybe(
    ProgramEnd,
    'of an agent: how its program ended the last time, and what it left',
  ),
  all_tokens: maybe(
    AllTokens,
    'of an agent: tokens of all its sequences. The other counts of a row are those of the main one',
  ),
  over_span: overSpan,
  forked_from: maybe(z.string(), 'of a fork: the rollout that it continues, by its `rollout_id`'),
  forked_at: maybe(z.string(), 'of a fork: where it leaves that rollout, `turn:N` or `token:N`'),
  failure: maybe(Failure, 'in failures.jsonl: why the rollout failed'),
  sample_row: maybe(z.int(), "in a stream: place of the group's sample in the input"),
  epoch: maybe(z.int(), 'in a stream: how often all samples were played before'),
  step: maybe(z.int(), 'in a stream: the step that delivers it'),
  token_lag: maybe(
    z.int().nullable(),
    'in a stream: how many versions its oldest token is behind the weights that train on it; null: unknown',
  ),
  masked: masked,
});
export type Row = z.infer<typeof Row>;
