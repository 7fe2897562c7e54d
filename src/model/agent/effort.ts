import { z } from 'zod';

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

/** What the effort levels made of an answer. */
export const Effort = z.object({
  low: z.boolean().describe('the prompt asks for little effort'),
  length: z.int().describe('tokens of the last call'),
  length_reward: z.number().exactOptional().describe('of a low one: what its length is worth'),
  reward: z.number().exactOptional().describe('of a low one: the reward with it, before penalties'),
});
export type Effort = z.infer<typeof Effort>;

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

/** The content of a row's last user message. */
function lastPromptOf(row: unknown): unknown {
  const input = Row.safeParse(row).data?.responses_create_params.input ?? [];
  if (typeof input === 'string') return input;
  const isPrompt = (message: unknown): message is z.infer<typeof UserMessage> =>
    UserMessage.safeParse(message).success && Object.hasOwn(message as object, 'content');
  return input.findLast(isPrompt)?.content;
}
