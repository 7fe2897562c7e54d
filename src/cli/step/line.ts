import { z } from 'zod';
import type { EnvironmentMessage } from '../../environments/environment.js';
import { Content, textLog } from '../../model/content.js';
import { Fault } from '../../model/faults.js';
import { foreignObject, type ForeignObject } from '../../model/foreign-object.js';
import { lineOf, problemsOf } from '../../model/problems.js';
import { Message } from '../../model/sample.js';
import type { Columns } from '../../model/sample-columns.js';
import { ENVIRONMENT, probableColumns, renamed, unmapped } from '../../model/sample-columns.js';
import { whyNoJson } from '../../platform/json/fault-place.js';
import { describeError } from '../../platform/errors.js';
import type { ForeignMembers } from '../../platform/json/kept.js';
import { readJson } from '../../platform/json/kept.js';
import { isRecord } from '../../platform/json/object.js';

/** A line of the input: a conversation and its state. */
export interface Line {
  log: EnvironmentMessage[];
  metadata: ForeignObject;
  /** The environment of a sample or row; null: the line names none. */
  task_name: string | null;
  /** How many messages stand before what the policy said. */
  prompt_length: number;
  /** Whether a row's rollout was graded as under `standard`; true for other lines. */
  is_standard: boolean;
  /** A row's rollout and its reward; null: the line is no row. */
  recorded: { rollout_id: string; total_reward: number } | null;
}

const atLeastOne = 'expected at least one message, got none';

const Step = z.strictObject({
  message_log: z.array(Message).min(1, atLeastOne),
  metadata: foreignObject().default({}),
});

const Said = z.looseObject({
  role: z.string(),
  content: Content,
  token_ids: z.array(z.number()).nullish(),
});

/** A sample, or a row of rollouts.jsonl. Their other columns do not matter here. */
const Row = z.looseObject({
  message_log: z.array(Said).min(1, atLeastOne),
  task_name: z.string().min(1).optional(),
  extra_env_info: foreignObject()
    .nullish()
    .transform((info) => info ?? {}),
  rollout_id: z.string().optional(),
  total_reward: z.number().optional(),
  prompt_tokens: z.number().default(0),
  semantics: z.string().default('standard'),
});

const FOREIGN = { metadata: 'all', extra_env_info: 'all' } as const;

export interface Reading {
  number: number;
  /** The policy's answer for lines that have none; null: each line has one. */
  answer: string | null;
  /** Makes samples of rows of a data set; null: the lines are none. */
  columns: Columns | null;
}

/** Throws an `EnvironmentRejected` that names the line. */
export function parseLine(text: string, { number, answer, columns }: Reading): Line {
  const bad = (problem: string): Fault =>
    new Fault({ type: 'EnvironmentRejected', message: `line ${number}: ${problem}` });
  const parsed = <T>(schema: z.ZodType<T>, value: unknown): T => {
    const { data, error } = schema.safeParse(value);
    if (error === undefined) return data;
    throw bad(problemsOf(error, value).map(lineOf).join('; '));
  };
  let value: unknown;
  try {
    value = readJson(text, columns === null ? FOREIGN : foreignIn(columns));
    if (columns !== null && isRecord(value)) value = renamed(value, columns);
  } catch (error) {
    const isJson = !(error instanceof SyntaxError);
    throw bad(isJson ? describeError(error) : `expected a JSON object: ${whyNoJson(text, error)}`);
  }
  const probable = probableColumns(value);
  if (probable !== null)
    throw bad(
      unmapped(value as object, {
        probable,
        pair: (column, name) => `${column}=${name}`,
        mapped: (pairs) => `--columns ${pairs.join(',')}`,
      }),
    );
  if (columns === null && !isRow(value)) {
    const { message_log, metadata } = parsed(Step, value);
    const log = withAnswer(textLog(message_log), answer);
    return { log, metadata, task_name: null, ...ASKED, prompt_length: lastOf(log) };
  }
  const { message_log, extra_env_info, task_name = null, ...row } = parsed(Row, value);
  const { rollout_id, total_reward, prompt_tokens, semantics } = row;
  const isResult = rollout_id !== undefined && total_reward !== undefined;
  const said = textLog(message_log);
  const log = withAnswer(isResult ? untilAnswer(said) : said, answer);
  if (!isAnswered(log))
    throw bad(
      `message_log: expected a last message of role assistant, got ${log.at(-1)?.role ?? 'none'}; --answer TEXT says it for all such lines`,
    );
  const line = { log, metadata: extra_env_info, task_name };
  if (!isResult) return { ...line, ...ASKED, prompt_length: lastOf(log) };
  return {
    ...line,
    prompt_length: Math.min(lastOf(log), promptOf(message_log, prompt_tokens)),
    is_standard: semantics === 'standard',
    recorded: { rollout_id, total_reward },
  };
}

/** Of lines that are not a batch's rows. */
const ASKED = { is_standard: true, recorded: null } as const;

const lastOf = (log: readonly EnvironmentMessage[]): number => Math.max(0, log.length - 1);

/** How many messages have the ids of the prompt. Without ids, the last message is what the policy said. */
function promptOf(log: readonly z.infer<typeof Said>[], prompt_tokens: number): number {
  let ids = 0;
  for (const [at, { token_ids }] of log.entries()) {
    ids += token_ids?.length ?? 0;
    if (prompt_tokens > 0 && ids >= prompt_tokens) return at + 1;
  }
  return log.length;
}

/** Columns that the environment gets stay as they came. */
const foreignIn = (columns: Columns): ForeignMembers => ({
  ...FOREIGN,
  ...Object.fromEntries(
    Array.from(columns)
      .filter(([, name]) => name.startsWith(ENVIRONMENT))
      .map(([column]) => [column, 'all'] as const),
  ),
});

const isRow = (value: unknown): boolean =>
  isRecord(value) &&
  !Object.hasOwn(value, 'metadata') &&
  ['task_name', 'extra_env_info'].some((column) => Object.hasOwn(value, column));

const isAnswered = (log: readonly EnvironmentMessage[]): boolean =>
  log.at(-1)?.role === 'assistant';

const withAnswer = (log: EnvironmentMessage[], answer: string | null): EnvironmentMessage[] =>
  answer === null || isAnswered(log) ? log : [...log, { role: 'assistant', content: answer }];

/** Without what the environment has answered to the last turn. */
const untilAnswer = (log: EnvironmentMessage[]): EnvironmentMessage[] =>
  log.slice(0, log.findLastIndex(({ role }) => role === 'assistant') + 1);
