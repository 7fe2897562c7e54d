import { z } from 'zod';
import { TokenId } from '../token-id.js';
import { TokenIds } from '../untrusted.js';

/** Keeps every reward finite. */
const Weight = z.number().min(-1e6).max(1e6);

/** NeMo RL's `effort_levels`: where a prompt asks for little effort, the length of the last call changes the reward. */
export const EffortLevels = z.strictObject({
  low_weight: Weight.default(0).describe('weight of the length; from 0 down, nothing is changed'),
  low_penalty: Weight.default(1).describe('weight of tokens beyond `low_ub`'),
  low_ub: z.int().positive().default(64_000).describe('the length, in tokens, that costs nothing'),
  low_string: z
    .string()
    .default('')
    .describe('a prompt that has this text asks for little effort; empty: nothing is changed'),
});
export type EffortLevels = z.infer<typeof EffortLevels>;

const flag = (what: string) => z.boolean().default(false).describe(`reward 0 if ${what}`);

/** NeMo RL's `reward_penalties`: mistakes that make a reward 0. */
export const RewardPenalties = z
  .strictObject({
    penalize_duplicated_reasoning: flag('an answer repeats the reasoning before it word for word'),
    penalize_empty_final_answer: flag('the last message is empty, or there is none'),
    penalize_unwanted_tokens: flag('a call sampled one of `token_ids.unwanted`'),
    penalize_malformed_think_tag: flag('a call opens a thought, or does not close it once'),
    token_ids: z
      .strictObject({
        unwanted: TokenIds.default([]).describe('ids that no call may sample'),
        think_open: TokenId.nullable()
          .default(null)
          .describe('the id of the tag that opens a thought; null: ids of tags are not counted'),
        think_close: TokenId.nullable().default(null).describe('the id of the tag that closes it'),
      })
      .prefault({})
      .describe('ids of the model'),
  })
  .superRefine((penalties, context) => {
    const { unwanted, think_open, think_close } = penalties.token_ids;
    const refuse = (message: string): void => {
      context.addIssue({ code: 'custom', path: ['token_ids'], message });
    };
    if (penalties.penalize_unwanted_tokens && unwanted.length === 0)
      refuse('expected ids as unwanted, since penalize_unwanted_tokens is true, got none');
    if ((think_open === null) !== (think_close === null))
      refuse('expected both think_open and think_close, or neither, got one');
  });
export type RewardPenalties = z.infer<typeof RewardPenalties>;

export const ShapingFields = {
  effort_levels: EffortLevels.nullable()
    .default(null)
    .describe('rewards short calls where the prompt asks for little effort; null: no prompt does'),
  reward_penalties: RewardPenalties.nullable()
    .default(null)
    .describe('mistakes that make a reward 0; null: none does'),
};
