import { z } from 'zod';
import type { EnvironmentReturn } from './environment.js';
import { rejected, rejectedFields, type BadData } from './rejections.js';

/** The answer of an environment behind a service to `POST /step`: untrusted until it has passed this schema. */

const REWARDS = 'expected a list of finite numbers, or named lists of them';

/** No component is no reward, and no reward is not 0. */
const Components = z
  .record(z.string(), z.array(z.number()))
  .refine((components) => Object.keys(components).length > 0, REWARDS);

const Rewards = z.union([z.array(z.number()), Components], { error: REWARDS });

/** Python's 0.0 and 1.0 are 0 and 1 once they have been JSON. */
const Terminated = z.union([z.boolean(), z.literal(0), z.literal(1)], {
  error: 'expected true, false, 0 or 1',
});

const StepAnswer = z.strictObject({
  observations: z.array(z.strictObject({ role: z.string(), content: z.string() })),
  metadata: z.array(z.record(z.string(), z.unknown()).nullable()),
  next_stop_strings: z
    .array(z.array(z.string().min(1)).nullable())
    .nullable()
    .default(null),
  rewards: Rewards,
  terminateds: z.array(Terminated),
  truncateds: z.array(Terminated).exactOptional(),
  answers: z.array(z.string().nullable()).nullable().default(null),
});

/** Checks fields and lengths; throws `EnvironmentRejected` that names each field, what was expected and what came. */
export function parseStepAnswer(
  answer: unknown,
  { batch_size, ...bad }: BadData & { batch_size: number },
): EnvironmentReturn {
  const parsed = StepAnswer.safeParse(answer);
  if (!parsed.success) throw rejectedFields({ ...bad, error: parsed.error, input: answer });
  const problems = listsOf(parsed.data)
    .filter(({ list }) => list.length !== batch_size)
    .map(({ where, list }) => ({
      where,
      what: `expected ${batch_size}, one per message log, got ${list.length}`,
    }));
  if (problems.length > 0) throw rejected({ ...bad, problems });
  return parsed.data;
}

/** Every list that has one entry per sample. */
function listsOf(answer: z.infer<typeof StepAnswer>): { where: string; list: unknown[] }[] {
  const { rewards, truncateds = null, ...others } = answer;
  const named = Array.isArray(rewards)
    ? { rewards }
    : Object.fromEntries(Object.entries(rewards).map(([name, list]) => [`rewards.${name}`, list]));
  const lists = { ...others, ...named, truncateds };
  return Object.entries(lists).flatMap(([where, list]) => (list === null ? [] : [{ where, list }]));
}
