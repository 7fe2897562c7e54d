import { Reward } from '../../model/journal/line-parts.js';
import { z } from 'zod';
import type { EnvironmentMessage, TurnAnswer } from '../../environments/environment.js';
import { type Content, sizeOf } from '../../model/content.js';
import { Fault } from '../../model/faults.js';
import type { ForeignObject } from '../../model/foreign-object.js';
import { type LineOf } from '../../model/journal.js';
import { type Problem, problemsOf } from '../../model/problems.js';
import { IN_LINES } from '../../model/workflow-safe/foreign.js';
import { describeError } from '../../platform/errors.js';
import { readJson, writeJson } from '../../platform/json/kept.js';
import { withoutSecrets } from '../../platform/secrets.js';

export interface AskedStep {
  task: string;
  turn: { message_log: EnvironmentMessage[]; metadata: ForeignObject };
  /** How many messages of the log are the prompt's. */
  prompt_length: number;
}

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

/** The answer as the journal takes it. What no row can have is a fault that names the field, never a reward. */
export function journalled(given: TurnAnswer<ForeignObject>, task: string): Answer {
  const { observation, terminated, truncated = false, answer = null } = given;
  const rejection = (problems: Problem[]): Fault => {
    const said = problems.slice(0, 5).map(({ where, what }) => `${where}: ${what}`);
    const message = `environment ${task} answered: ${said.join('; ')}`;
    return new Fault({ type: 'EnvironmentRejected', message });
  };
  if (observation === null && !terminated && !truncated) {
    const what = 'expected a message, because the rollout goes on, got null';
    throw rejection([{ where: 'observation', what }]);
  }
  const worth = paid(given, rejection);
  const metadata = given.metadata ?? null;
  try {
    // Cycles and BigInts cannot be journalled, and would look like a fault of the store.
    writeJson(metadata);
  } catch (error) {
    const what = `expected what JSON can hold: ${describeError(error)}`;
    throw rejection([{ where: 'metadata', what }]);
  }
  return cleaned({
    message: observation,
    ...worth,
    terminated,
    truncated,
    metadata,
    next_stop_strings: given.next_stop_strings ?? null,
    ...(answer !== null && { answer }),
  });
}

/**
 * Size limit of the state that an environment returns. Every activity of the rollout holds it, and the journal has it
 * at each turn.
 */
const MAX_STATE_BYTES = 2 ** 20;
/** Limit for all observations of a rollout: more than any context takes. */
const MAX_CHARACTERS = 2 ** 26;

interface Staying {
  task: string;
  /** All that the environment has said so far; `when`: in which words messages call it. */
  said: readonly Content[];
  when: string;
  metadata: ForeignObject | null;
  /** The sample's own state. */
  brought: ForeignObject | undefined;
}

/** Closer limits for what stays with the rollout: its text, and its state up to a megabyte or twice the sample's. */
export function checkBounds({ task, said, when, metadata, brought }: Staying): void {
  const tooMuch = (what: string): Fault => {
    const message = `environment ${task} answered: expected at most ${what}`;
    return new Fault({ type: 'EnvironmentRejected', message });
  };
  const characters = said.reduce((sum, content) => sum + sizeOf(content), 0);
  if (characters > MAX_CHARACTERS)
    throw tooMuch(`${MAX_CHARACTERS} characters ${when}, got ${characters}`);
  const state = bytesOf(metadata);
  if (state <= MAX_STATE_BYTES) return;
  const most = Math.max(MAX_STATE_BYTES, 2 * bytesOf(brought));
  if (state > most) throw tooMuch(`${most} bytes of metadata, got ${state}`);
}

const bytesOf = (value: unknown): number => Buffer.byteLength(writeJson(value ?? null));

const Named = z.object({ reward: z.record(z.string(), Reward) });
const Paid = z.object({ reward: Reward });

/** A number that is not finite is no reward. Neither is one that is far too large, alone or as a sum. */
function paid(
  { reward }: Pick<TurnAnswer, 'reward'>,
  rejection: (problems: Problem[]) => Fault,
): Pick<Answer, 'reward' | 'rewards'> {
  if (typeof reward === 'number') {
    const { data, error } = Paid.safeParse({ reward });
    if (error !== undefined) throw rejection(problemsOf(error, { reward }));
    return { ...data, rewards: {} };
  }
  const { error } = Named.safeParse({ reward });
  if (error !== undefined) throw rejection(problemsOf(error, { reward }));
  const sum = Reward.safeParse(Object.values(reward).reduce((total, n) => total + n, 0));
  if (sum.success) return { reward: sum.data, rewards: reward };
  const what = `of their sum, ${sum.error.issues[0]?.message ?? ''}`;
  throw rejection([{ where: 'reward', what }]);
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

/**
 * A text that `writeJson` wrote, with a replacement character for each half of a character without its other half: these
 * alone have such an escape there.
 */
const withoutHalves = (text: string): string =>
  text.includes('\\ud')
    ? text.replaceAll(/\\(?:ud[89a-f][0-9a-f]{2}|.)/g, (escape) =>
        escape.length > 2 ? '\ufffd' : escape,
      )
    : text;
