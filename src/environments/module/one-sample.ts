import { z } from 'zod';
import { Content } from '../../model/content.js';
import { numberOfBoolean, recordOf } from '../../model/untrusted.js';
import type { TurnEnvironment } from './authoring.js';
import type { StepInput } from '../environment.js';
import { rejected, rejectedFields } from '../rejections.js';

/** The form of a module that answers one sample at a time. */

const Flag = z.union([z.boolean(), z.literal(0), z.literal(1)], {
  error: 'expected true, false, 0 or 1',
});

const Given = numberOfBoolean(z.number());

const TurnAnswer = z.strictObject({
  observation: z.union([z.string(), z.strictObject({ role: z.string(), content: Content })], {
    error: 'expected a text, or an object with role and content',
  }),
  reward: z.union([Given, recordOf(Given)], {
    error: 'expected a finite number, or named ones',
  }),
  terminated: Flag,
  truncated: Flag.default(false),
  metadata: recordOf(z.unknown()).nullable().default(null),
  next_stop_strings: z.array(z.string().min(1)).nullable().default(null),
  answer: z.string().nullable().default(null),
});

/** Samples of a batch one after the other; the answers as upstream's lists. */
export async function stepEach(
  { message_log_batch, metadata }: StepInput,
  {
    stepOne,
    subject,
  }: {
    stepOne: (turn: Parameters<TurnEnvironment['stepOne']>[0]) => unknown;
    subject: string;
  },
): Promise<unknown> {
  const answers: z.infer<typeof TurnAnswer>[] = [];
  for (const [i, message_log] of message_log_batch.entries()) {
    const input = await stepOne({ message_log, metadata: metadata[i] ?? {} });
    const parsed = TurnAnswer.safeParse(input);
    if (!parsed.success)
      throw rejectedFields({ subject: `${subject} answered`, error: parsed.error, input });
    answers.push(parsed.data);
  }
  return {
    observations: answers.map(({ observation }) =>
      typeof observation === 'string' ? { role: 'environment', content: observation } : observation,
    ),
    metadata: answers.map((answer) => answer.metadata),
    next_stop_strings: answers.map((answer) => answer.next_stop_strings),
    rewards: rewardsOf(
      answers.map(({ reward }) => reward),
      subject,
    ),
    terminateds: answers.map(({ terminated }) => terminated),
    truncateds: answers.map(({ truncated }) => truncated),
    answers: answers.map(({ answer }) => answer),
  };
}

function rewardsOf(
  rewards: (number | Record<string, number>)[],
  subject: string,
): number[] | Record<string, number[]> {
  const plain = rewards.filter((reward) => typeof reward === 'number');
  if (plain.length === rewards.length) return plain;
  const named = rewards.filter((reward) => typeof reward !== 'number');
  if (plain.length > 0) {
    const what = 'expected numbers for all samples of a batch, or names for all, got both';
    throw rejected({ subject: `${subject} answered`, problems: [{ where: 'reward', what }] });
  }
  const names = new Set(named.flatMap((reward) => Object.keys(reward)));
  return Object.fromEntries(
    [...names].map((name) => [name, named.map((reward) => reward[name] ?? 0)]),
  );
}
