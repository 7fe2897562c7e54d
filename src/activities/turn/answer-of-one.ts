import { z } from 'zod';
import type { EnvironmentReturn } from '../../environments/environment.js';
import { Content } from '../../model/content.js';
import { Fault } from '../../model/faults.js';
import { describeError } from '../../platform/errors.js';
import type { LineOf } from '../../model/journal.js';
import { Reward } from '../../model/journal.js';
import { numberOfBoolean } from '../../model/untrusted.js';
import { foreignObject, type ForeignObject } from '../../model/foreign-object.js';
import { IN_LINES } from '../../model/workflow-safe/foreign.js';
import { withoutHalves } from '../../platform/json/halves.js';
import { readJson, writeJson } from '../../platform/json/kept.js';
import type { Problem } from '../../model/problems.js';
import { problemsOf } from '../../model/problems.js';
import { withoutSecrets } from '../../platform/secrets.js';

/** The part of an environment's answer that the journal stores. */
export type Answer = Pick<
  LineOf<'observation'>,
  | 'message'
  | 'reward'
  | 'rewards'
  | 'terminated'
  | 'truncated'
  | 'metadata'
  | 'next_stop_strings'
  | 'answer'
>;

const one = <T extends z.ZodType>(item: T) =>
  z.tuple([item], {
    error: ({ input }) =>
      Array.isArray(input) ? `expected 1, one per message log, got ${input.length}` : undefined,
  });

const flag = z.union([z.boolean(), z.literal(0), z.literal(1)]);

const answerWith = <T extends z.ZodType>(rewards: T) =>
  z.object({
    observations: one(z.object({ role: z.string(), content: Content }).nullable()),
    metadata: one(foreignObject().nullable()),
    next_stop_strings: one(z.array(z.string().min(1)).nullable()).nullish(),
    rewards,
    terminateds: one(flag),
    truncateds: one(flag).nullish(),
    answers: one(z.string().nullable()).nullish(),
  });
const Given = numberOfBoolean(Reward);
const WithReward = answerWith(one(Given));
/** Rows and metrics are objects with these names. A name that JavaScript objects cannot have would be lost. */
const isNamed = (rewards: unknown): boolean =>
  typeof rewards === 'object' &&
  rewards !== null &&
  // No component means no reward, which is not the same as 0.
  Object.keys(rewards).length > 0 &&
  Object.keys(rewards).every((name) => name !== '' && name !== '__proto__');
const WithRewards = answerWith(
  z
    .custom<object>(isNamed, 'expected a list of numbers, or named lists of them')
    .pipe(z.record(z.string(), one(Given))),
);

/**
 * The answer of a batch of one, as the journal takes it. Environments are foreign code, so a missing, malformed or
 * infinite field is a fault that names it, never a reward.
 */
export function answerOfOne(answer: unknown, task: string): Answer {
  const isSingle = Array.isArray(
    (answer as Partial<EnvironmentReturn> | null | undefined)?.rewards,
  );
  const { data, error } = (isSingle ? WithReward : WithRewards).safeParse(answer);
  if (error !== undefined) throw rejection(task, problemsOf(error, answer));
  const { rewards } = data;
  const given = data.answers?.[0] ?? null;
  const ends = Boolean(data.terminateds[0]) || Boolean(data.truncateds?.[0]);
  if (data.observations[0] === null && !ends)
    throw rejection(task, [
      { where: 'observations.0', what: 'expected a message of a turn that ends nothing, got null' },
    ]);
  const named = Array.isArray(rewards)
    ? {}
    : Object.fromEntries(Object.entries(rewards).map(([name, [value]]) => [name, value]));
  return cleaned({
    message: data.observations[0],
    reward: Array.isArray(rewards) ? rewards[0] : sumOf(named, task),
    rewards: named,
    terminated: Boolean(data.terminateds[0]),
    truncated: Boolean(data.truncateds?.[0]),
    metadata: storable(data.metadata[0], task),
    next_stop_strings: data.next_stop_strings?.[0] ?? null,
    ...(given !== null && { answer: given }),
  });
}

/**
 * An environment may echo a secret, from a header or from a service that it asked. And it may send half a character, at
 * which tokenizers and trainers in Python fail.
 */
export function cleaned<T extends object>(answer: T): T {
  const text = writeJson(answer);
  const clean = withoutSecrets(withoutHalves(text));
  return clean === text ? answer : (readJson(clean, IN_LINES) as T);
}

function sumOf(named: Record<string, number>, task: string): number {
  const { data, error } = Reward.safeParse(Object.values(named).reduce((sum, n) => sum + n, 0));
  if (error === undefined) return data;
  throw rejection(task, [
    { where: 'rewards', what: `of their sum, ${error.issues[0]?.message ?? ''}` },
  ]);
}

/** Cycles and BigInts cannot be journalled, and would look like a fault of the store. */
function storable(metadata: ForeignObject | null, task: string): ForeignObject | null {
  try {
    writeJson(metadata);
    return metadata;
  } catch (error) {
    const what = `expected what JSON can hold: ${describeError(error)}`;
    throw rejection(task, [{ where: 'metadata.0', what }]);
  }
}

function rejection(task: string, problems: Problem[]): Fault {
  const said = problems.slice(0, 5).map(({ where, what }) => `${where}: ${what}`);
  const message = `environment ${task} answered: ${said.join('; ')}`;
  return new Fault({ type: 'EnvironmentRejected', message });
}
