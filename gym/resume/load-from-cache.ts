import type { Json, JsonObject } from '../json/exact.js';
import { isObject, jsonNumber, numberIn, parseJson, valueIn } from '../json/exact.js';
import { ATTEMPT_INDEX, FAILURE_TERMINAL } from '../keys.js';
import type { Members } from '../../src/platform/json/members.js';
import { isTruthy } from '../python/repr.js';
import type { GymRow, RowKey } from '../row.js';
import { agentOf, BLANK, lineMembers, rolloutName, rowKeyOf } from '../row.js';

/** A file's lines from `textsOf`; none where there is no such file. */
export type Lines = AsyncIterable<string> | Iterable<string>;

export interface Cache {
  /** The collection's rows, in dispatch order. */
  rows: GymRow[];
  main: Lines;
  failures: Lines;
  /** From `maxAttempts`. */
  max_attempts: number;
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
  const done = await readMain(cache.main, { known, problems });
  const failures = await readFailures(cache.failures, { known, problems });
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

const BLANK_LINE = `: ${BLANK}: passed over`;

/** The rows of a `<stem>_materialized_inputs.jsonl`; `whole` is false if a line of it was unreadable. */
export async function readMaterialized(
  lines: Lines,
): Promise<{ rows: GymRow[]; whole: boolean; problems: string[] }> {
  const rows: GymRow[] = [];
  const problems: string[] = [];
  for await (const { members, text, where } of read(lines, {
    file: 'materialized inputs',
    problems,
  })) {
    const [key, agent] = [rowKeyOf(members), agentOf(members)];
    if (key === null || agent === null) {
      problems.push(
        `${where}: no ${key === null ? 'task and rollout index' : 'agent'}: passed over`,
      );
      continue;
    }
    const attempt_index = numberIn(members.get(ATTEMPT_INDEX)) ?? 0;
    rows.push({ key, agent, attempt_index, row: parseJson(text) as JsonObject });
  }
  return { rows, whole: problems.every((problem) => problem.endsWith(BLANK_LINE)), problems };
}

interface Reading {
  known: Map<string, GymRow>;
  problems: string[];
}

async function readMain(lines: Lines, { known, problems }: Reading): Promise<RowKey[]> {
  const done: RowKey[] = [];
  const seen = new Set<string>();
  for await (const { members, where } of read(lines, { file: 'results', problems })) {
    const key = rowKeyOf(members);
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
  for await (const { members, where } of read(lines, { file: 'failures', problems })) {
    const key = rowKeyOf(members);
    const other =
      key === null ? 'no task and rollout index' : otherCollection(members, { key, known });
    if (key === null || other !== null) {
      problems.push(`${where}: ${other ?? ''}: not counted`);
      continue;
    }
    const { lines: before, last, terminal } = failed.get(rolloutName(key)) ?? NEVER_FAILED;
    failed.set(rolloutName(key), {
      lines: before + 1,
      last: Math.max(last, numberIn(members.get(ATTEMPT_INDEX)) ?? 0),
      terminal: terminal || isTruthy(valueIn(members, FAILURE_TERMINAL)),
    });
  }
  return failed;
}

const NEVER_FAILED: Failed = { lines: 0, last: 0, terminal: false };

/**
 * Why a failure belongs to another collection, which upstream's sidecar keeps through fresh runs; null: it belongs to
 * this one. An agent echoes parameters in its own form (a text becomes a message, defaults are filled in). So only the
 * agent's name and the first user message are compared, each if both have one.
 */
function otherCollection(
  failure: Members,
  { key, known }: Pick<Reading, 'known'> & { key: RowKey },
): string | null {
  const name = rolloutName(key);
  const row = known.get(name);
  if (row === undefined) return `a failure of ${name}, which is no row of this collection`;
  const agent = agentOf(failure) ?? row.agent;
  const ours = firstUserText(row.row['responses_create_params']);
  const failed = firstUserText(valueIn(failure, 'responses_create_params')) ?? ours;
  const isOurs = agent === row.agent && (ours === null || failed === ours);
  return isOurs ? null : `a failure of ${name} with another agent or input`;
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

/** The lines that are JSON objects, named as `results, line 3`; reports the others. */
async function* read(
  lines: Lines,
  { file, problems }: { file: string; problems: string[] },
): AsyncGenerator<{ members: Members; text: string; where: string }> {
  let number = 0;
  for await (const text of lines) {
    number += 1;
    const where = `${file}, line ${number}`;
    const members = lineMembers(text);
    if (typeof members === 'string') problems.push(`${where}: ${members}: passed over`);
    else yield { members, text, where };
  }
}
