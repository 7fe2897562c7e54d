import { z } from 'zod';
import { CallMessage, CAUSES } from '../calls/message.js';
import { Content } from '../content.js';
import { foreignObject } from '../foreign-object.js';
import { Finish } from '../journal.js';
import { PlacedPicture } from '../pictures.js';
import { TokenId } from '../token-id.js';
import { UNTRAINED } from './call-paths.js';

/** What columns of a row consist of; `row-columns.ts` has the columns. */

/** Offsets count the generated tokens of a rollout, or of an agent's sequence, from 0. */
const Run = z.object({
  start: z
    .int()
    .describe(
      'the first of these generated tokens. They are counted from 0 over the whole rollout, without prompt and observations; in `sequences`, over those of its `message_log`',
    ),
  end: z.int().describe('the one behind the last'),
});

/** Offsets count the ids of its sequence from 0. */
const IdRun = z.object({
  start: z
    .int()
    .describe(
      'the first of these ids. They are counted from 0 over all of `message_log`, prompt and observations included; in `sequences`, the `fork` ids before it, too',
    ),
  end: z.int().describe('the one behind the last'),
});

const VersionLabel = z
  .string()
  .nullable()
  .describe('the label of the weights (a number as text, for a published version), or null');

const REQUEST = {
  turn: z
    .int()
    .describe('its turn, from 0; where an agent asks for answers, the number of the call'),
  replica: z.string().describe('base URL of the replica'),
  request_id: z.string().describe("the request, as in the engine's log"),
};

export const RowMessage = z.strictObject({
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
    .describe(
      'in failures.jsonl, on the last message: no environment has answered it. Where an agent asks for answers: this one was never finished',
    ),
  ...CallMessage.pick({ reasoning: true, tool_calls: true, tool_call_id: true, is_error: true })
    .shape,
});

/**
 * Seconds. `wall_s` spans the rollout's start and its end, or the last thing played. The others are sums over its whole
 * turns. An agent's run is one step.
 */
export const Timing = z.object({
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

export const trainMask = z
  .array(IdRun)
  .describe(
    'which ids to train on: runs over the ids of `message_log`, in order and not adjacent. It has what the policy sampled, without `masked`; it is `[]` for a failure (whatever its `loss_multiplier`), where `loss_multiplier` is 0, and for a sequence of an agent that does not train. Rows of releases before it lack it',
  );
export const versionRuns = z
  .array(Run.extend({ version: VersionLabel }))
  .describe('which weights sampled which tokens: runs over the generated tokens');
export const requestRuns = z
  .array(Run.extend(REQUEST))
  .describe('which replica and request sampled which tokens: runs over the generated tokens');
export const masked = z
  .array(Run)
  .exactOptional()
  .describe(
    'in a stream with `when_stale: mask`: runs of generated tokens that are too old to train on. `train_mask` is without them',
  );
export const overSpan = z
  .literal(true)
  .exactOptional()
  .describe(
    'an answer has tokens of more versions than `max_version_span`, because the agent had read its beginning',
  );
export const finishReasons = z
  .array(Finish.shape.finish_reason)
  .describe(
    'how the engine ended each whole turn: by itself or at a stop string or stop token (`stop`), or at `max_new_tokens` or `max_seq_len` (`length`)',
  );

/** What a path of an agent's calls has beyond those before it. */
export const RowSequence = z.strictObject({
  sequence: z.int().positive().describe('its number; 0 is the main one, which the row itself is'),
  parent: z
    .int()
    .nullable()
    .describe('the sequence whose first ids it begins with, by number; null: none'),
  fork: z.int().describe('how many of them. They train in no other sequence than their own'),
  cause: z
    .enum(CAUSES)
    .describe(
      "why it begins. `separate`: another system message, or other tools. `edited`, `shortened`: the agent changed the conversation. `resampled`: it asked the same again. `diverged`: an agent that was started again asked something new. `template`: the chat template renders earlier messages otherwise. `first`: it is the rollout's first",
    ),
  train: z.boolean().describe('whether it trains'),
  why: z
    .enum(UNTRAINED)
    .exactOptional()
    .describe(
      'why it does not. `abandoned`: the last life of the agent never asked for it. `unread`: the agent never got the whole answer. `resampled`: it went on from another answer to the same (`train_resampled`). `separate`: `train_separate` leaves it out',
    ),
  calls: z.array(z.int()).describe('the calls whose answers it has, by number'),
  message_log: z.array(RowMessage).describe('what it has behind these ids'),
  assistant_tokens: z.int().describe('tokens that the policy sampled in it'),
  finish_reasons: finishReasons,
  train_mask: trainMask,
  policy_versions: versionRuns,
  segments: requestRuns,
  masked,
  over_span: overSpan,
});

export const AllTokens = z.strictObject({
  sampled: z
    .int()
    .describe('tokens that the policy sampled in all sequences, the main one included'),
  trained: z.int().describe('those of them that train'),
  sequences: z.int().describe('how many sequences, the main one included'),
});

export const ProgramEnd = z.strictObject({
  code: z.int().nullable().describe('its exit code; null: a signal ended it'),
  signal: z.string().nullable().describe('that signal, or null'),
  tail: z.string().describe('the last 2 kB of what it printed'),
  submission: z.string().nullable().describe('what it handed in, or null'),
  metadata: foreignObject().nullable().describe('what it returned as `metadata`, or null'),
});
