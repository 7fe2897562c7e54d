import { z } from 'zod';
import type { Shaping } from '../journal.js';
import type { EffortLevels } from './shaping-settings.js';

/** What the effort levels made of an answer. */
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

/** The content of a row's last user message. */
function lastPromptOf(row: unknown): unknown {
  const input = Row.safeParse(row).data?.responses_create_params.input ?? [];
  if (typeof input === 'string') return input;
  const isPrompt = (message: unknown): message is z.infer<typeof UserMessage> =>
    UserMessage.safeParse(message).success && Object.hasOwn(message as object, 'content');
  return input.findLast(isPrompt)?.content;
}
