import { z } from 'zod';
import { bool, count, countOrNull, maybe, number, text, textOrNull } from '../field-kinds.js';
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
  start: count(
    'the first of these generated tokens. They are counted from 0 over the whole rollout, without prompt and observations; in `sequences`, over those of its `message_log`',
  ),
  end: count('index after the last one'),
});

/** Offsets count the ids of its sequence from 0. */
const IdRun = z.object({
  start: count(
    'the first of these ids. They are counted from 0 over all of `message_log`, prompt and observations included; in `sequences`, the `fork` ids before it, too',
  ),
  end: count('index after the last one'),
});

const VersionLabel = textOrNull(
  'the label of the weights (a number as text, for a published version), or null',
);

const REQUEST = {
  turn: count('turn, from 0; of an agent, the number of the call'),
  replica: text('base URL of the replica'),
  request_id: text("id of the request, as in the engine's log"),
  inherited: maybe(z.literal(true), 'of a fork: the rollout that it continues has sampled them'),
};

export const RowMessage = z.strictObject({
  role: text('`system`, `user`, `assistant`, or another role of the sample or the environment'),
  content: Content.describe(
    'the text, or the parts of a message with images. `""` for an agent of NeMo Gym, whose text is in `agent_result`',
  ),
  token_ids: z.array(TokenId).describe('ids of the message, as the engine got or sampled them'),
  generation_logprobs: z
    .array(z.number())
    .optional()
    .describe(
      'logprob of each id of a sampled message. Observations have none. Prompt messages may have some from the sample: do not train on them',
    ),
  prompt_logprobs: maybe(
    z.array(z.number().nullable()),
    "with `prompt_logprobs`, in messages of the prompt: the model's logprob of each id when the rollout began; null for the very first id",
  ),
  generation_top_logprobs: maybe(
    z.array(z.array(z.tuple([TokenId, z.number()]))),
    'with `top_logprobs`: for each sampled token its likeliest `[id, logprob]`, the likeliest first',
  ),
  pictures: maybe(
    z.array(PlacedPicture),
    'runs of ids that the engine made of pictures, in their order. A picture that `max_seq_len` cuts has none',
  ),
  sampled: maybe(
    z.literal(true),
    'the policy sampled this message. It replaces logprobs with `include_logprobs: false`',
  ),
  partial: maybe(
    z.literal(true),
    'in failures.jsonl, in the last message: no environment has answered it. Of an agent: the answer was never finished',
  ),
  ...CallMessage.pick({ reasoning: true, tool_calls: true, tool_call_id: true, is_error: true })
    .shape,
});
/** Its ids are always there; logprobs, or the mark, only on what the policy sampled. */
export type LogMessage = z.infer<typeof RowMessage>;

/** Sums over whole turns, in seconds; `wall_s` alone spans the rollout. */
export const Timing = z.object({
  queue_s: number(
    "from a request to its first token: the engine's queue and prefill, summed over whole turns",
  ),
  generate_s: number('generation of the whole turns'),
  step_s: number("the environment's steps. An agent's run is one step"),
  wall_s: number("from the rollout's start to its end, or to the last thing played"),
});
export type Timing = z.infer<typeof Timing>;

export const trainMask = z
  .array(IdRun)
  .describe(
    "ids to train on: runs over the ids of `message_log`, in order and not adjacent. They are the sampled ids without `masked`. `[]` for a failure, for a `loss_multiplier` of 0, and for an agent's sequence that does not train",
  );
export const versionRuns = z
  .array(Run.extend({ version: VersionLabel }))
  .describe('weights that sampled each token: runs over the generated tokens');
export const requestRuns = z
  .array(Run.extend(REQUEST))
  .describe('replica and request that sampled each token: runs over the generated tokens');
export const masked = z
  .array(Run)
  .exactOptional()
  .describe(
    'runs of generated tokens that do not train: in a stream with `when_stale: mask` those that are too old, in a fork those of the rollout that it continues. `train_mask` is without them',
  );
export const overSpan = maybe(
  z.literal(true),
  'an answer has tokens of more versions than `max_version_span`: the agent had read its beginning',
);
export const finishReasons = z
  .array(Finish.shape.finish_reason)
  .describe(
    'why the engine ended each whole turn. `stop`: an end, a stop string or a stop token. `length`: `max_new_tokens` or `max_seq_len`',
  );

/** What a path of an agent's calls has beyond those before it. */
export const RowSequence = z.strictObject({
  sequence: z
    .int()
    .positive()
    .describe('number of the sequence. The main one, 0, is the row itself'),
  parent: countOrNull('number of the sequence with whose ids it begins; null: none'),
  fork: count('how many ids it takes from `parent`. They do not train again here'),
  cause: z
    .enum(CAUSES)
    .describe(
      "why the sequence begins. `separate`: another system message, or other tools. `edited`, `shortened`: the agent changed the conversation. `resampled`: it asked the same again. `diverged`: an agent that was started again asked something new. `template`: the chat template renders earlier messages otherwise. `first`: it is the rollout's first",
    ),
  train: bool('whether the sequence trains'),
  why: maybe(
    z.enum(UNTRAINED),
    'why the sequence does not train. `abandoned`: the last life of the agent never asked for it. `unread`: the agent never got the whole answer. `resampled`: it went on from another answer to the same (`train_resampled`). `separate`: `train_separate` leaves it out',
  ),
  calls: z.array(z.int()).describe('the calls whose answers it has, by number'),
  message_log: z.array(RowMessage).describe('messages after these ids'),
  assistant_tokens: count('tokens that the policy sampled in it'),
  finish_reasons: finishReasons,
  train_mask: trainMask,
  policy_versions: versionRuns,
  segments: requestRuns,
  masked,
  over_span: overSpan,
});

export const AllTokens = z.strictObject({
  sampled: count('tokens that the policy sampled in all sequences, the main one included'),
  trained: count('sampled tokens that train'),
  sequences: count('how many sequences, the main one included'),
});

export const ProgramEnd = z.strictObject({
  code: countOrNull('exit code; null: a signal ended it'),
  signal: textOrNull('the signal that ended it, or null'),
  tail: text('the last 2 kB of what it printed'),
  submission: textOrNull('its submission, or null'),
  metadata: foreignObject().nullable().describe('the `metadata` that it returned, or null'),
});
