import { readJson, writeJson } from '../platform/json/kept.js';
import { fieldsIn, type ForeignObject } from './foreign-object.js';
import type { Problem } from './problems.js';
import { preview, previews } from './problems.js';

/** Rows of a data set as samples. `shapes.py` has the same rules for the Python client. */

export type Columns = ReadonlyMap<string, string>;

export const ENVIRONMENT = 'extra_env_info.';
const PROMPT = 'prompt';
/** Columns of a sample that a column of a row may become as it is. */
const OWN = ['message_log', 'task_name', 'stop_strings', 'idx', 'loss_multiplier', 'length'];

/** What data sets call a prompt and its answer, the likeliest first. */
const PROMPTS = [
  'prompt',
  'messages',
  'question',
  'problem',
  'instruction',
  'query',
  'input',
  'text',
];
const ANSWERS = ['ground_truth', 'answer', 'solution', 'expected_answer', 'target', 'label'];

/** What probably maps a row without a prompt that is one of a data set as it came; null: it looks like nothing known. */
export function probableColumns(row: unknown): Columns | null {
  if (typeof row !== 'object' || row === null || 'message_log' in row) return null;
  const [prompt] = PROMPTS.filter((name) => name in row);
  if (prompt === undefined) return null;
  const answers = ANSWERS.filter((name) => name in row).slice(0, 1);
  return new Map([
    [prompt, PROMPT],
    ...answers.map((answer) => [answer, `${ENVIRONMENT}ground_truth`] as const),
  ]);
}

/** The column that the environment probably reads; without a new name none reaches it. null: there is none. */
function columnRead(row: object, probable: Columns): string | null {
  const [prompt, answer] = probable.keys();
  const others = Object.keys(row).filter(
    (name) => ![prompt, 'extra_env_info', 'id', ...OWN].includes(name),
  );
  return answer ?? others[0] ?? null;
}

/** As the Python client says it of such rows. `pair`: of a column and its new name; `mapped`: what has all pairs. */
export function unmapped(
  row: object,
  {
    probable,
    pair,
    mapped,
  }: {
    probable: Columns;
    pair: (column: string, name: string) => string;
    mapped: (pairs: string[]) => string;
  },
): string {
  const pairs = Array.from(probable, ([column, name]) => pair(column, name));
  const read = columnRead(row, probable);
  const own =
    read === null
      ? ''
      : `; a column that the environment reads by its own name: ${pair(read, `${ENVIRONMENT}${read}`)}`;
  return `expected a sample, whose prompt is message_log, got columns ${previews(Object.keys(row))}; probably ${mapped(pairs)} maps them${own}`;
}

/** For a problem of such a row: with what maps its columns. */
export function withColumns(problem: Problem, row: unknown): Problem {
  const probable = problem.where === 'message_log' ? probableColumns(row) : null;
  if (probable === null) return problem;
  const what = unmapped(row as object, {
    probable,
    pair: (column, name) => `"${column}": "${name}"`,
    mapped: (pairs) => `columns={${pairs.join(', ')}} of start_batch and stream (Python)`,
  });
  return { ...problem, what };
}

export function checkColumns(pairs: readonly (readonly [string, string])[]): Columns {
  const taken = new Map<string, string>();
  for (const [column, name] of pairs) {
    if (![PROMPT, ...OWN].includes(name) && !(name.startsWith(ENVIRONMENT) && name !== ENVIRONMENT))
      throw new Error(
        `${column}: expected ${PROMPT}, ${ENVIRONMENT}NAME, ${OWN.slice(0, -1).join(', ')} or ${OWN.at(-1) ?? ''}, got ${preview(name)}; for the environment: ${ENVIRONMENT}${name}`,
      );
    const target = name === PROMPT ? 'message_log' : name;
    const other = taken.get(target);
    if (other !== undefined)
      throw new Error(`expected one column for ${name}, got ${other} and ${column}`);
    taken.set(target, column);
  }
  return new Map(pairs);
}

/** A row's sample. Columns without a new name stay as they are. Throws what was expected. */
export function renamed(row: Record<string, unknown>, columns: Columns): Record<string, unknown> {
  const [missing] = [...columns.keys()].filter((column) => !Object.hasOwn(row, column));
  if (missing !== undefined)
    throw new Error(
      `expected column ${preview(missing)} (columns), got ${previews(Object.keys(row)) || 'none'}`,
    );
  const names = new Set(columns.values());
  const sample: Record<string, unknown> = {};
  const given: Record<string, unknown> = {};
  for (const [column, value] of Object.entries(row)) {
    const name = columns.get(column);
    if (name === PROMPT) sample['message_log'] = messages(value, column);
    else if (name?.startsWith(ENVIRONMENT) === true) given[name.slice(ENVIRONMENT.length)] = value;
    // A renamed one takes the place of one of its name.
    else if (name !== undefined || !names.has(column)) sample[name ?? column] = value;
  }
  if (Object.keys(given).length === 0) return sample;
  const own = fieldsIn((sample['extra_env_info'] ?? {}) as ForeignObject);
  return { ...sample, extra_env_info: readJson(writeJson({ ...own, ...given })) };
}

function messages(prompt: unknown, column: string): unknown[] {
  if (typeof prompt === 'string') return [{ role: 'user', content: prompt }];
  if (Array.isArray(prompt) && prompt.length > 0) return prompt;
  throw new Error(
    `${column}: expected text or a list of messages as prompt, got ${preview(prompt)}`,
  );
}
