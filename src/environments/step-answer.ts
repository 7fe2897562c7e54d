import { z } from 'zod';
import { nullIsAbsent } from '../model/absent.js';
import { Content } from '../model/content.js';
import { foreignObject, type ForeignObject } from '../model/foreign-object.js';
import type { Problem } from '../model/problems.js';
import { nameProblem, numberOfBoolean, recordOf } from '../model/untrusted.js';
import { isRecord } from '../platform/json/object.js';
import type { TurnAnswer } from './environment.js';
import { rejected, rejectedFields, type BadData } from './rejections.js';
import { environmentSays } from './turn.js';

/**
 * The answer of foreign code to a turn: untrusted until it has passed this schema. The same fields come in two forms: by
 * themselves (`stepOne` of a module), or as upstream's lists with one entry for each message log (`POST /step`, and
 * `step` of a module), of which there is always one.
 */

/** There are seven fields; more than some unknown ones are no misspelling. */
const MAX_FIELDS = 64;
/** Limit of a reward's components: each has its own metrics, and a place in every row. */
const MAX_REWARDS = 256;
const MAX_NAME_LENGTH = 128;
const MAX_STOP_STRINGS = 256;
const MAX_STOP_STRING_LENGTH = 1024;
/** The extracted answer, which a rollout keeps for every turn. */
const MAX_EXTRACTED = 65_536;

const shortText = (length: number) =>
  z.string().max(length, `expected at most ${length} characters, got more`);

const Said = z.strictObject({ role: shortText(MAX_NAME_LENGTH), content: Content });
const State = foreignObject().nullable();
const StopStrings = z.array(shortText(MAX_STOP_STRING_LENGTH).min(1)).nullable();
const Given = numberOfBoolean(z.number());
/** Python's 0.0 and 1.0 are 0 and 1 once they have been JSON. */
const Flag = z.union([z.boolean(), z.literal(0), z.literal(1)], {
  error: 'expected true, false, 0 or 1',
});
const Extracted = shortText(MAX_EXTRACTED).nullable();

/** One reward, or several by name. None at all is refused, because no reward is not 0. */
const paid = <T extends z.ZodType>(given: T, error: string) =>
  z.union([given, recordOf(given).refine((named) => Object.keys(named).length > 0, error)], {
    error,
  });

const Answer = z.strictObject({
  observation: z.union([z.string(), Said], {
    error: 'expected a text, or an object with role and content',
  }),
  metadata: State.default(null),
  next_stop_strings: StopStrings.default(null),
  reward: paid(Given, 'expected a finite number, or named ones'),
  terminated: Flag,
  truncated: Flag.default(false),
  answer: Extracted.default(null),
});

/** Its length is checked before. */
const listOf = <T extends z.ZodType>(entry: T) =>
  z.array(entry).transform((entries) => entries[0] as z.output<T>);

const Lists = z.strictObject({
  observations: listOf(Said),
  metadata: listOf(State),
  next_stop_strings: listOf(StopStrings).nullable().default(null),
  rewards: paid(listOf(Given), 'expected a list of finite numbers, or named lists of them'),
  terminateds: listOf(Flag),
  truncateds: listOf(Flag).default(false),
  answers: listOf(Extracted).nullable().default(null),
});

/** Python's models write None for what they lack. */
const NullableLists = nullIsAbsent(Lists, (field) => field === 'truncateds');

/** Throws `EnvironmentRejected` that names each field, what was expected and what came. */
export function parseAnswer(answer: unknown, bad: BadData): TurnAnswer<ForeignObject> {
  const given = fieldsOf(answer);
  const problems = sizeProblems(given, {
    rewards: 'reward',
    stop_strings: { where: 'next_stop_strings', list: given['next_stop_strings'] },
  });
  const parsed = parsedBy(Answer, { answer, problems, bad });
  const { observation, terminated, truncated, ...rest } = parsed;
  return {
    ...rest,
    observation: typeof observation === 'string' ? environmentSays(observation) : observation,
    terminated: Boolean(terminated),
    truncated: Boolean(truncated),
  };
}

export function parseListedAnswer(answer: unknown, bad: BadData): TurnAnswer<ForeignObject> {
  const given = fieldsOf(answer);
  const stops = given['next_stop_strings'];
  const problems = [
    ...sizeProblems(given, {
      rewards: 'rewards',
      stop_strings: { where: 'next_stop_strings.0', list: Array.isArray(stops) ? stops[0] : null },
    }),
    ...lengthProblems(given),
  ];
  const parsed = parsedBy(NullableLists, { answer, problems, bad });
  return {
    observation: parsed.observations,
    metadata: parsed.metadata,
    next_stop_strings: parsed.next_stop_strings,
    reward: parsed.rewards,
    terminated: Boolean(parsed.terminateds),
    truncated: Boolean(parsed.truncateds),
    answer: parsed.answers,
  };
}

/** `problems`: found before, because zod would make a million reports for a list of a million wrong entries. */
function parsedBy<T extends z.ZodType>(
  schema: T,
  { answer, problems, bad }: { answer: unknown; problems: Problem[]; bad: BadData },
): z.output<T> {
  if (problems.length > 0) throw rejected({ ...bad, problems });
  const { data, error } = schema.safeParse(answer);
  if (error !== undefined) throw rejectedFields({ ...bad, error, input: answer });
  return data;
}

const fieldsOf = (value: unknown): Record<string, unknown> => (isRecord(value) ? value : {});

function sizeProblems(
  answer: Record<string, unknown>,
  {
    rewards,
    stop_strings: { where, list },
  }: { rewards: string; stop_strings: { where: string; list: unknown } },
): Problem[] {
  const fields = Object.keys(answer).length;
  const names = Object.keys(fieldsOf(answer[rewards]));
  if (fields > MAX_FIELDS)
    return [{ where: '(body)', what: `expected at most ${MAX_FIELDS} fields, got ${fields}` }];
  if (names.length > MAX_REWARDS)
    return [{ where: rewards, what: `expected at most ${MAX_REWARDS} names, got ${names.length}` }];
  const stops = Array.isArray(list) ? list.length : 0;
  return [
    ...names.flatMap((name) => rewardNameProblems(name, rewards)),
    ...(stops > MAX_STOP_STRINGS
      ? [{ where, what: `expected at most ${MAX_STOP_STRINGS}, got ${stops}` }]
      : []),
  ];
}

function rewardNameProblems(name: string, rewards: string): Problem[] {
  // Each name is part of a metric's.
  if (name === '') return [{ where: rewards, what: 'expected names, got an empty one' }];
  const what =
    name.length > MAX_NAME_LENGTH
      ? `expected a name of at most ${MAX_NAME_LENGTH} characters, got ${name.length}`
      : nameProblem(name);
  return what === null ? [] : [{ where: `${rewards}.${name.slice(0, MAX_NAME_LENGTH)}`, what }];
}

function lengthProblems(answer: Record<string, unknown>): Problem[] {
  const named = Object.entries(fieldsOf(answer['rewards'])).slice(0, MAX_REWARDS);
  const lists = [
    ...Object.keys(Lists.shape).map((where) => ({ where, list: answer[where] })),
    ...named.map(([name, list]) => ({ where: `rewards.${name}`, list })),
  ];
  return lists.flatMap(({ where, list }) =>
    Array.isArray(list) && list.length !== 1
      ? [{ where, what: `expected 1, one per message log, got ${list.length}` }]
      : [],
  );
}
