import { z } from 'zod';
import { nullIsAbsent } from '../model/absent.js';
import { Content } from '../model/content.js';
import type { Problem } from '../model/problems.js';
import { foreignObject, type ForeignObject } from '../model/foreign-object.js';
import { nameProblem, numberOfBoolean, recordOf } from '../model/untrusted.js';
import type { EnvironmentReturn } from './environment.js';
import { rejected, rejectedFields, type BadData } from './rejections.js';

/** The answer of an environment behind a service to `POST /step`: untrusted until it has passed this schema. */

/** There are seven fields; more than some unknown ones are no misspelling. */
const MAX_FIELDS = 64;
/** Limit of a reward's components: each has its own metrics, and a place in every row. */
const MAX_REWARDS = 256;
const MAX_NAME_LENGTH = 128;
/** For one sample's next turn. */
const MAX_STOP_STRINGS = 256;
const MAX_STOP_STRING_LENGTH = 1024;
/** The extracted answer, which a rollout keeps for every turn. */
const MAX_EXTRACTED = 65_536;

const shortText = (length: number) =>
  z.string().max(length, `expected at most ${length} characters, got more`);

const REWARDS = 'expected a list of finite numbers, or named lists of them';

const Given = z.array(numberOfBoolean(z.number()));
/** No component means no reward, and no reward is not 0. */
const Components = recordOf(Given).refine(
  (components) => Object.keys(components).length > 0,
  REWARDS,
);

const Rewards = z.union([Given, Components], { error: REWARDS });

/** Python's 0.0 and 1.0 are 0 and 1 once they have been JSON. */
const Terminated = z.union([z.boolean(), z.literal(0), z.literal(1)], {
  error: 'expected true, false, 0 or 1',
});

const StepAnswer = z.strictObject({
  observations: z.array(z.strictObject({ role: shortText(MAX_NAME_LENGTH), content: Content })),
  metadata: z.array(foreignObject().nullable()),
  next_stop_strings: z
    .array(z.array(shortText(MAX_STOP_STRING_LENGTH).min(1)).nullable())
    .nullable()
    .default(null),
  rewards: Rewards,
  terminateds: z.array(Terminated),
  truncateds: z.array(Terminated).exactOptional(),
  answers: z.array(shortText(MAX_EXTRACTED).nullable()).nullable().default(null),
});

/** Python's models write None for what they lack. */
const NullableAnswer = nullIsAbsent(StepAnswer, (field) => field === 'truncateds');

/** Checks fields and lengths; throws `EnvironmentRejected` that names each field, what was expected and what came. */
export function parseStepAnswer(
  answer: unknown,
  { batch_size, ...bad }: BadData & { batch_size: number },
): EnvironmentReturn<ForeignObject> {
  // First, because zod would make a million reports for a list of a million wrong entries.
  const problems = isObject(answer) ? sizeProblems(answer, batch_size) : [];
  if (problems.length > 0) throw rejected({ ...bad, problems });
  const parsed = NullableAnswer.safeParse(answer);
  if (!parsed.success) throw rejectedFields({ ...bad, error: parsed.error, input: answer });
  return parsed.data;
}

const isObject = (value: unknown): value is Record<string, unknown> =>
  typeof value === 'object' && value !== null && !Array.isArray(value);

function sizeProblems({ rewards, ...answer }: Record<string, unknown>, size: number): Problem[] {
  const fields = Object.keys(answer).length;
  if (fields > MAX_FIELDS) {
    return [{ where: '(body)', what: `expected at most ${MAX_FIELDS} fields, got ${fields}` }];
  }
  const named = isObject(rewards) ? rewards : {};
  const names = Object.keys(named);
  if (names.length > MAX_REWARDS) {
    const what = `expected at most ${MAX_REWARDS} names, got ${names.length}`;
    return [{ where: 'rewards', what }];
  }
  const lists = [
    ...Object.keys(StepAnswer.shape).map((where) => ({ where, list: answer[where] })),
    { where: 'rewards', list: rewards },
    ...names.map((name) => ({ where: `rewards.${name}`, list: named[name] })),
  ];
  return [
    ...names.flatMap(rewardNameProblems),
    ...lists.flatMap(({ where, list }) =>
      Array.isArray(list) && list.length !== size
        ? [{ where, what: `expected ${size}, one per message log, got ${list.length}` }]
        : [],
    ),
    ...stopStringProblems(answer['next_stop_strings']),
  ];
}

function rewardNameProblems(name: string): Problem[] {
  const what =
    name.length > MAX_NAME_LENGTH
      ? `expected a name of at most ${MAX_NAME_LENGTH} characters, got ${name.length}`
      : nameProblem(name);
  return what === null ? [] : [{ where: `rewards.${name.slice(0, MAX_NAME_LENGTH)}`, what }];
}

function stopStringProblems(lists: unknown): Problem[] {
  if (!Array.isArray(lists)) return [];
  return lists.flatMap((list: unknown, i) =>
    Array.isArray(list) && list.length > MAX_STOP_STRINGS
      ? [
          {
            where: `next_stop_strings.${i}`,
            what: `expected at most ${MAX_STOP_STRINGS}, got ${list.length}`,
          },
        ]
      : [],
  );
}
