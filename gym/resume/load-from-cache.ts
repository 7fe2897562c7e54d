import { describeError } from '../../src/platform/errors.js';
import type { Json, JsonObject } from '../json/exact.js';
import { isObject, jsonNumber, numberOf, parseJson } from '../json/exact.js';
import { AGENT_REF, ATTEMPT_INDEX, FAILURE_TERMINAL, ROLLOUT_INDEX, TASK_INDEX } from '../keys.js';
import { membersOf, objectText } from '../../src/platform/json/members.js';
import { isTruthy } from '../rows/prompt.js';
import type { GymRow, RowKey } from '../row.js';
import { rolloutName, rowKeyOf } from '../row.js';

/** A file's lines from `textsOf`; null: there is no such file. */
export type Lines = AsyncIterable<string> | Iterable<string>;

export interface Cache {
  /** The collection's rows, in dispatch order. */
  rows: GymRow[];
  main: Lines | null;
  failures: Lines | null;
  /** From `maxAttempts`. */
  max_attempts: number;
  /** Called for each usable line of the main file, in order; results are not kept here. */
  onResult?: (result: { key: RowKey; text: string }) => void;
}

export interface Resumed {
  /**
   * Rows left to run, in dispatch order. `attempt_index` (and the row's `_ng_attempt_index`) is how often each was
   * tried before.
   */
  rows: GymRow[];
  /** One for each result in the main file, in its order; a row may have two. */
  done: RowKey[];
  /** Upstream's summary. */
  summary: string;
  /** Skipped lines, with the reason. */
  problems: string[];
}

/**
 * Which rows of a collection are done, failed for good, or left to run, from files of upstream or of this project.
 * Torn, blank and foreign lines are skipped and reported; upstream (`_load_from_cache`) cannot resume with them at all.
 */
export async function loadFromCache(cache: Cache): Promise<Resumed> {
  const { rows, max_attempts } = cache;
  const known = new Map(rows.map((row) => [rolloutName(row.key), row]));
  const problems: string[] = [];
  const done = await readMain(cache, { known, problems });
  const failures = await readFailures(cache.failures ?? [], { known, problems });
  const terminal = [...failures].flatMap(([name, { terminal }]) => (terminal ? [name] : []));
  const spent = [...failures].flatMap(([name, { lines }]) => (lines >= max_attempts ? [name] : []));
  const gated = new Set([...done.map(rolloutName), ...terminal, ...spent]);
  const left = rows
    .filter(({ key }) => !gated.has(rolloutName(key)))
    .map((row) => withAttempts(row, nextAttempt(failures.get(rolloutName(row.key)))));
  const counts = [...failures.values()].reduce((sum, { lines }) => sum + lines, 0);
  const summary = [
    'Resumed from cache. Found:',
    `- ${rows.length} original input rows`,
    `- ${done.length} rows already done (in main jsonl)`,
    `- ${counts} prior failure attempts (${failures.size} unique tasks) in sidecar`,
    `- ${terminal.length} sidecar-terminal (timeout_exceeded / skipped) → not retried`,
    `- ${spent.length} hit max_attempts=${max_attempts} → not retried`,
    `- ${left.length} rows that still need to be run`,
  ].join('\n');
  return { rows: left, done, summary, problems };
}

const BLANK = ': a blank line: passed over';

/** The rows of a `<stem>_materialized_inputs.jsonl`; `whole` is false if a line of it was unreadable. */
export async function readMaterialized(
  lines: Lines,
): Promise<{ rows: GymRow[]; whole: boolean; problems: string[] }> {
  const rows: GymRow[] = [];
  const problems: string[] = [];
  for await (const { value, where } of parsed(lines, {
    file: 'materialized inputs',
    fields: null,
    problems,
  })) {
    const key = rowKeyOf(value);
    const ref = value[AGENT_REF];
    const agent = isObject(ref) ? ref['name'] : null;
    if (key === null || typeof agent !== 'string') {
      problems.push(
        `${where}: no ${key === null ? 'task and rollout index' : 'agent'}: passed over`,
      );
      continue;
    }
    rows.push({ key, agent, attempt_index: numberOf(value[ATTEMPT_INDEX]) ?? 0, row: value });
  }
  return { rows, whole: problems.every((problem) => problem.endsWith(BLANK)), problems };
}

interface Reading {
  known: Map<string, GymRow>;
  problems: string[];
}

async function readMain(
  { main, onResult }: Cache,
  { known, problems }: Reading,
): Promise<RowKey[]> {
  const done: RowKey[] = [];
  const seen = new Set<string>();
  for await (const { value, text, where } of parsed(main ?? [], {
    file: 'results',
    fields: KEYS,
    problems,
  })) {
    const key = rowKeyOf(value);
    if (key === null) {
      problems.push(`${where}: no task and rollout index: passed over`);
      continue;
    }
    const name = rolloutName(key);
    if (!known.has(name)) {
      problems.push(
        `${where}: a result of ${name}, which is no row of this collection: passed over`,
      );
      continue;
    }
    if (seen.has(name)) problems.push(`${where}: a second result of ${name}: both stay`);
    seen.add(name);
    done.push(key);
    onResult?.({ key, text });
  }
  return done;
}

/** The failures of one row. */
interface Failed {
  lines: number;
  /** The largest `_ng_attempt_index`. */
  last: number;
  terminal: boolean;
}

/**
 * Each line is one collection that failed the row, as in upstream's files; `max_attempts` counts these. This project
 * tries a row several times before it writes a line, whose index counts those tries, so no id is used twice.
 */
const nextAttempt = ({ lines, last }: Failed = NEVER_FAILED): number =>
  lines === 0 ? 0 : Math.max(lines, last + 1);

async function readFailures(
  lines: Lines,
  { known, problems }: Reading,
): Promise<Map<string, Failed>> {
  const failed = new Map<string, Failed>();
  for await (const { value, where } of parsed(lines, {
    file: 'failures',
    fields: OF_FAILURES,
    problems,
  })) {
    const key = rowKeyOf(value);
    const row = key === null ? undefined : known.get(rolloutName(key));
    const other = otherCollection(value, { key, row });
    if (key === null || other !== null) {
      problems.push(`${where}: ${other ?? 'no task and rollout index'}: not counted`);
      continue;
    }
    const { lines: before, last, terminal } = failed.get(rolloutName(key)) ?? NEVER_FAILED;
    failed.set(rolloutName(key), {
      lines: before + 1,
      last: Math.max(last, numberOf(value[ATTEMPT_INDEX]) ?? 0),
      terminal: terminal || isTruthy(value[FAILURE_TERMINAL]),
    });
  }
  return failed;
}

const NEVER_FAILED: Failed = { lines: 0, last: 0, terminal: false };

/**
 * Why a failure belongs to another collection, which upstream's sidecar keeps through fresh runs; null: it belongs to
 * this one.
 */
function otherCollection(
  failure: JsonObject,
  { key, row }: { key: RowKey | null; row: GymRow | undefined },
): string | null {
  if (key === null) return null;
  const name = rolloutName(key);
  if (row === undefined) return `a failure of ${name}, which is no row of this collection`;
  return fitsRow(failure, row) ? null : `a failure of ${name} with another agent or input`;
}

/**
 * Whether a failure with a row's key is this row's. An agent echoes parameters in its own form (a text becomes a
 * message, defaults are filled in). So only the agent's name and the first user message are compared, each if both have
 * one.
 */
function fitsRow(failure: JsonObject, { agent, row }: GymRow): boolean {
  const ref = failure[AGENT_REF];
  const name = isObject(ref) ? ref['name'] : undefined;
  if (typeof name === 'string' && name !== agent) return false;
  const failed = firstUserText(failure['responses_create_params']);
  const ours = firstUserText(row['responses_create_params']);
  return failed === null || ours === null || failed === ours;
}

/** null: there is none, or it is not text. */
function firstUserText(params: Json | undefined): string | null {
  const input = isObject(params) ? params['input'] : undefined;
  if (typeof input === 'string') return input;
  if (!Array.isArray(input)) return null;
  const first = input.find((item) => isObject(item) && item['role'] === 'user');
  const content = isObject(first) ? first['content'] : undefined;
  if (typeof content === 'string') return content;
  if (!Array.isArray(content)) return null;
  const texts = content.map((part) => (isObject(part) ? part['text'] : undefined));
  return texts.every((text) => typeof text === 'string') ? texts.join('') : null;
}

function withAttempts(row: GymRow, attempts: number): GymRow {
  if (attempts === 0) return row;
  return {
    ...row,
    attempt_index: attempts,
    row: { ...row.row, [ATTEMPT_INDEX]: jsonNumber(attempts) },
  };
}

interface Line {
  value: JsonObject;
  text: string;
  /** `results, line 3`. */
  where: string;
}

const KEYS = [TASK_INDEX, ROLLOUT_INDEX];
const OF_FAILURES = [
  ...KEYS,
  ATTEMPT_INDEX,
  FAILURE_TERMINAL,
  AGENT_REF,
  'responses_create_params',
];

/** Yields the lines that are JSON objects, with only the wanted fields; reports the others. */
async function* parsed(
  lines: Lines,
  { file, fields, problems }: { file: string; fields: string[] | null; problems: string[] },
): AsyncIterable<Line> {
  let number = 0;
  for await (const text of lines) {
    number += 1;
    const where = `${file}, line ${number}`;
    if (text.trim() === '') {
      problems.push(`${where}${BLANK}`);
      continue;
    }
    const value = parseLine(text, fields);
    if (typeof value === 'string') problems.push(`${where}: ${value}: passed over`);
    else yield { value, text, where };
  }
}

/** Returns a text for a problem. Unwanted fields are checked but never parsed: they may be large and deep. */
function parseLine(text: string, fields: string[] | null): JsonObject | string {
  let value: Json;
  try {
    value = parseJson(fields === null ? text : pickText(text, fields));
  } catch (error) {
    return `torn, or no JSON (${describeError(error)})`;
  }
  return isObject(value) ? value : 'no JSON object';
}

function pickText(text: string, fields: string[]): string {
  JSON.parse(text);
  const members = membersOf(text);
  return members === null
    ? text
    : objectText([...members].filter(([name]) => fields.includes(name)));
}
