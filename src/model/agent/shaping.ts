import { z } from 'zod';
import { Positive, orNull } from '../field-kinds.js';
import type { Shaping } from '../journal.js';
import { type Judged, penalisedFor, RewardPenalties } from './penalties.js';

/** Keeps every reward finite. */
const Weight = z.number().min(-1e6).max(1e6);

/** NeMo RL's `effort_levels`: where a prompt asks for little effort, the length of the last call changes the reward. */
export const EffortLevels = z.strictObject({
  low_weight: Weight.default(0).describe('weight of the length; 0 or less: off'),
  low_penalty: Weight.default(1).describe('weight of tokens beyond `low_ub`'),
  low_ub: Positive.default(64_000).describe('length in tokens up to which nothing is deducted'),
  low_string: z
    .string()
    .default('')
    .describe('a prompt with this text asks for little effort; empty: off'),
});
export type EffortLevels = z.infer<typeof EffortLevels>;

export const ShapingFields = {
  effort_levels: orNull(EffortLevels).describe(
    'rewards short calls where the prompt asks for little effort; null: off',
  ),
  reward_penalties: orNull(RewardPenalties).describe('mistakes that make a reward 0; null: off'),
};

const THINKING_TAGS = ['<think>', '</think>'];

/** What NeMo RL makes of an agent's reward before it trains on it. */
export interface ShapingRules {
  effort_levels: EffortLevels | null;
  reward_penalties: RewardPenalties | null;
  thinking_tags: readonly string[];
}

export interface Unshaped extends Pick<Judged, 'output' | 'calls'> {
  reward: number;
  /** The row as it was sent. */
  row: unknown;
}

/** By length where little effort is asked for, then 0 for a mistake. Without calls nothing is trained on. */
export function shapedReward(
  { effort_levels, reward_penalties, thinking_tags }: ShapingRules,
  { reward, row, ...answer }: Unshaped,
): { reward: number; shaping?: Shaping } {
  const last = answer.calls.at(-1);
  if (last === undefined) return { reward };
  const length = last.token_ids.length;
  const effort = effort_levels && effortOf(effort_levels, { reward, length, row });
  const tags = thinking_tags.length === 0 ? THINKING_TAGS : thinking_tags;
  const penalties =
    reward_penalties && penalisedFor(reward_penalties, { ...answer, thinking_tags: tags });
  if (effort === null && penalties === null) return { reward };
  const isPenalised = Object.values(penalties ?? {}).includes(true);
  return {
    reward: isPenalised ? 0 : (effort?.reward ?? reward),
    shaping: { reward, ...(effort && { effort }), ...(penalties && { penalties }) },
  };
}

type Effort = NonNullable<Shaping['effort']>;

/** null: the levels are switched off. */
export function effortOf(
  levels: EffortLevels,
  { reward, length, row }: { reward: number; length: number; row: unknown },
): Effort | null {
  const { low_weight, low_penalty, low_ub, low_string } = levels;
  if (low_weight <= 0 || low_string === '') return null;
  if (!asks(lastPromptOf(row), low_string)) return { low: false, length };
  const length_reward = Math.min(1, low_weight * (1 - length / low_ub));
  const shaped =
    reward + reward * Math.max(length_reward, 0) + low_penalty * Math.min(length_reward, 0);
  return { low: true, length, length_reward, reward: shaped };
}

/** As Python's `in`: a part of a text, or an entry of a list. */
const asks = (prompt: unknown, text: string): boolean =>
  (typeof prompt === 'string' || Array.isArray(prompt)) && prompt.includes(text);

const Row = z.object({
  responses_create_params: z.object({ input: z.union([z.string(), z.array(z.unknown())]) }),
});
const UserMessage = z.looseObject({ role: z.literal('user'), content: z.unknown() });

function lastPromptOf(row: unknown): unknown {
  const input = Row.safeParse(row).data?.responses_create_params.input ?? [];
  if (typeof input === 'string') return input;
  const isPrompt = (message: unknown): message is z.infer<typeof UserMessage> =>
    UserMessage.safeParse(message).success && Object.hasOwn(message as object, 'content');
  return input.findLast(isPrompt)?.content;
}
