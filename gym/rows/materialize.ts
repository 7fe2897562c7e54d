import { describeError } from '../../src/platform/errors.js';
import type { Json, JsonObject } from '../json/exact.js';
import { formatJson, isObject, jsonNumber, numberOf, parseJson } from '../json/exact.js';
import { filtered } from '../../src/platform/json/order.js';
import { linesOf } from '../../src/platform/lines.js';
import { resolveInterpolations } from '../config/interpolation.js';
import type { RolloutCollectionConfig } from '../config/schemas.js';
import { AGENT_REF, ATTEMPT_INDEX, ROLLOUT_INDEX, SKILLS_REF, TASK_INDEX } from '../keys.js';
import { parseInputRow } from './input-row.js';
import { applyPrompt, checkPromptFits, loadPrompt } from './prompt.js';
import { dumpJson } from '../python/json.js';
import { reprOf } from '../python/repr.js';
import type { GymRow } from '../row.js';
import { notFound, resolveUnderRoots } from '../config/search-roots.js';
import { exists } from '../../src/platform/files.js';
import type { Places } from '../config/search-roots.js';
import { skillsRef, usingSkills } from './skills.js';

export interface MaterializeDependencies extends Places {
  /** Upstream's output. */
  say: (text: string) => void;
  /** Upstream's warnings. */
  warn: (text: string) => void;
}

/** A line of the input file, parsed. */
interface InputRow {
  /** From 1. */
  line: number;
  /**
   * Its text and its end: lines that are equal in both are one task, as in upstream. So a last line without an end is
   * a task of its own.
   */
  text: string;
  row: JsonObject;
}

/**
 * The rows of a collection in dispatch order (`aabbcc`, or `abcabc` if interleaved): each line of the input with its prompt filled in, its agent,
 * its parameters, its task and rollout index. Throws upstream's error texts (`_preprocess_rows_from_config` at
 * 07d6b0d).
 */
export async function materialize(
  config: RolloutCollectionConfig,
  dependencies: MaterializeDependencies,
): Promise<GymRow[]> {
  const { say, warn } = dependencies;
  for (const text of announcements(config)) say(text);
  const params = resolvedParams(config.responses_create_params, dependencies.env);
  const prompt =
    config.prompt_config === null ? null : await loadPrompt(config.prompt_config, dependencies);
  const skills = config.skills === null ? null : await skillsRef(config.skills.path, dependencies);
  if (skills !== null) say(usingSkills(skills));
  const file = await resolveUnderRoots(config.input_jsonl_fpath, dependencies);
  if (!(await exists(file))) {
    throw new Error(
      `Input file not found: '${config.input_jsonl_fpath}' (--input). Check the path is spelled correctly.${notFound(config.input_jsonl_fpath, dependencies)}`,
    );
  }
  let inputs = await readInputs(file, config.limit ?? 0);
  if (prompt !== null) {
    checkPromptFits(inputs.map(({ row }) => row));
    inputs = inputs.map((input) => ({ ...input, row: applyPrompt(input.row, prompt) }));
  }
  const repeats = createRepeats(config.num_repeats);
  const rows = stampRows(inputs, { config, params, file, repeats, skills });
  const warning = repeats.check();
  if (warning !== null) warn(warning);
  if (!config.interleave_repeats) return rows;
  say('Interleaving repeats (in a pattern of aabbcc to abcabc)');
  return rows.toSorted((one, other) => one.key.rollout - other.key.rollout);
}

/** As a line of `<stem>_materialized_inputs.jsonl`, without its end. */
export const materializedLine = ({ row }: GymRow): string => formatJson(row);

function announcements(config: RolloutCollectionConfig): string[] {
  const texts: string[] = [];
  if ((config.limit ?? 0) > 0) texts.push(`Limiting the number of rows to ${config.limit ?? 0}`);
  if (config.num_repeats_add_seed) {
    texts.push(
      'Adding unique `seed` values to each input via metadata.extra_body (only honored by vLLM model servers)',
    );
  }
  if ((config.agent_name ?? '') !== '') {
    texts.push(
      `Using \`${config.agent_name ?? ''}\` for rows that do not already have an agent ref`,
    );
  }
  if (Object.keys(config.responses_create_params).length > 0) {
    const params = reprOf(config.responses_create_params);
    texts.push(`Overriding responses_create_params fields with ${params}`);
  }
  texts.push(
    typeof config.num_repeats === 'number'
      ? `Repeating rows ${config.num_repeats} times (in a pattern of abc to aabbcc)!`
      : `Per-agent num_repeats: ${JSON.stringify(config.num_repeats)}`,
  );
  if (config.prompt_config !== null) texts.push(`Using prompt config: ${config.prompt_config}`);
  return texts;
}

/** Lines beyond the limit are not read. */
async function readInputs(file: string, limit: number): Promise<InputRow[]> {
  const inputs: InputRow[] = [];
  for await (const { text, number: line, ended } of linesOf(file)) {
    const row = parseInputRow(text, `in '${file}' at line ${line}`);
    inputs.push({ line, text: ended ? `${text}\n` : text, row });
    if (inputs.length === limit) break;
  }
  return inputs;
}

/** What rows get: references in it are looked up in it alone, as upstream does. */
function resolvedParams(params: JsonObject, env: Places['env']): JsonObject {
  const { config, unresolved } = resolveInterpolations(params, env);
  if (unresolved.length === 0) return config;
  const problems = unresolved.map(({ where, what }) => `responses_create_params.${where}: ${what}`);
  problems.push(
    'A reference in responses_create_params is looked up in it alone, as upstream does.',
  );
  throw new Error(problems.join('\n'));
}

interface Stamps {
  config: RolloutCollectionConfig;
  /** Laid over those of each row. */
  params: JsonObject;
  file: string;
  repeats: Repeats;
  skills: JsonObject | null;
}

function stampRows(
  inputs: InputRow[],
  { config, params, file, repeats, skills }: Stamps,
): GymRow[] {
  /** Task indices by line text; a new text gets its own. */
  const tasks = new Map<string, number>();
  const rollouts = new Map<number, number>();
  const agentless: number[] = [];
  const rows: GymRow[] = [];
  for (const { line, text, row: given } of inputs) {
    const where = `in '${file}' at line ${line}`;
    const row = withoutNullStamps(given);
    // A row with `agent_ref: null` has no agent, as in upstream.
    const isNamed = config.agent_name !== null && config.agent_name !== '';
    if (isNamed && !Object.hasOwn(row, AGENT_REF)) row[AGENT_REF] = { name: config.agent_name };
    const agent = agentOf(row[AGENT_REF], where);
    if (agent === null) {
      agentless.push(line);
      continue;
    }
    row['responses_create_params'] = paramsOf(row, { params, where });
    if (skills !== null) row[SKILLS_REF] = skills;
    if (!Object.hasOwn(row, TASK_INDEX)) {
      const task = tasks.get(text) ?? tasks.size;
      tasks.set(text, task);
      row[TASK_INDEX] = jsonNumber(task);
    }
    const task = indexOf(row, { key: TASK_INDEX, where });
    const hasAttempt = Object.hasOwn(row, ATTEMPT_INDEX);
    const attempt_index = hasAttempt ? indexOf(row, { key: ATTEMPT_INDEX, where }) : 0;
    const count = repeats.of(agent);
    for (let repeat = 0; repeat < count; repeat++) {
      const rollout = rollouts.get(task) ?? 0;
      rollouts.set(task, rollout + 1);
      const repeated = { ...row, [ROLLOUT_INDEX]: jsonNumber(rollout) };
      const seeded = config.num_repeats_add_seed
        ? withSeed(repeated, { seed: rollout, where })
        : repeated;
      rows.push({ key: { task, rollout }, agent, attempt_index, row: seeded });
    }
  }
  if (agentless.length > 0) throw new Error(withoutAgent(agentless, { config, file }));
  return rows;
}

/** Tables (Parquet, `datasets`, pandas) give every row every column: null where a row has none. */
const withoutNullStamps = (row: JsonObject): JsonObject =>
  filtered(row, (key, value) => value !== null || !STAMPS.has(key));
const STAMPS: ReadonlySet<string> = new Set([TASK_INDEX, ROLLOUT_INDEX, ATTEMPT_INDEX]);

/** null: none, or null. */
function agentOf(ref: Json | undefined, where: string): string | null {
  const name = isObject(ref) ? (ref['name'] ?? null) : (ref ?? null);
  if (name === null || (isObject(ref) && typeof name === 'string')) return name;
  throw new Error(
    `Malformed row ${where}: agent_ref: expected {"name": <text>}, got ${reprOf(ref ?? null)}`,
  );
}

/** Upstream's text has indices only with a limit (they are all 0 otherwise), so the lines follow it. */
function withoutAgent(lines: number[], { config, file }: Pick<Stamps, 'config' | 'file'>): string {
  const hasLimit = (config.limit ?? 0) > 0;
  const indices = lines.map((line) => (hasLimit ? line - 1 : 0)).join(', ');
  return (
    `No agent specified for rows [${indices}]. Either provide +agent_name config or include agent_ref in data. ` +
    `Those are lines [${lines.join(', ')}] of '${file}'.`
  );
}

function paramsOf(
  row: JsonObject,
  { params, where }: { params: JsonObject; where: string },
): JsonObject {
  const own = row['responses_create_params'];
  if (isObject(own)) return { ...own, ...params };
  const got = own === undefined ? 'nothing' : reprOf(own);
  throw new Error(
    `Malformed row ${where}: 'responses_create_params': expected an object, got ${got}`,
  );
}

function indexOf(row: JsonObject, { key, where }: { key: string; where: string }): number {
  const index = numberOf(row[key]);
  if (index !== null && Number.isSafeInteger(index) && index >= 0) return index;
  throw new Error(
    `Malformed row ${where}: ${key}: expected an integer from 0, got ${reprOf(row[key] ?? null)}`,
  );
}

type Repeats = ReturnType<typeof createRepeats>;

/** `num_repeats`: one number, or one per agent with `_default` for the rest. */
function createRepeats(num_repeats: number | Record<string, number>) {
  const { _default: fallback, ...named }: Record<string, number> =
    typeof num_repeats === 'number' ? { _default: num_repeats } : num_repeats;
  const seen = new Set<string>();
  const missing = new Set<string>();
  return {
    /** How often its rows are played; 0, which `check` reports: it has no entry, and there is no `_default`. */
    of: (agent: string): number => {
      seen.add(agent);
      const count = Object.hasOwn(named, agent) ? named[agent] : fallback;
      if (count === undefined) missing.add(agent);
      return count ?? 0;
    },
    /** Once all rows were seen: throws for agents without a number; returns a warning for numbers without rows. */
    check: (): string | null => {
      if (missing.size > 0) {
        throw new Error(
          `num_repeats dict has no entry for agents ${listOf(missing)} ` +
            `and no '_default' fallback. Listed agents: ${listOf(Object.keys(named))}`,
        );
      }
      const unused = Object.keys(named).filter((agent) => !seen.has(agent));
      if (unused.length === 0) return null;
      return `num_repeats dict contains agent names that never appeared in input rows (possible typo?): ${listOf(unused)}`;
    },
  };
}

const listOf = (names: Iterable<string>): string => reprOf([...names].sort());

/** The row with the seed in its `metadata.extra_body`, a JSON text whose other content stays. `row` does not change. */
function withSeed(row: JsonObject, { seed, where }: { seed: number; where: string }): JsonObject {
  const params = row['responses_create_params'];
  const base = isObject(params) ? params : {};
  const metadata = base['metadata'] ?? {};
  const bad = (what: string, got: Json): Error =>
    new Error(
      `Malformed row ${where}: num_repeats_add_seed: responses_create_params.${what}, got ${reprOf(got)}`,
    );
  if (!isObject(metadata)) throw bad('metadata: expected an object', metadata);
  const text = metadata['extra_body'] ?? '{}';
  if (typeof text !== 'string') throw bad('metadata.extra_body: expected JSON as text', text);
  let body: Json;
  try {
    body = parseJson(text);
  } catch (error) {
    throw bad(`metadata.extra_body: expected JSON as text (${describeError(error)})`, text);
  }
  if (!isObject(body)) throw bad('metadata.extra_body: expected a JSON object as text', text);
  const extra_body = dumpJson({ ...body, seed: jsonNumber(seed) });
  return {
    ...row,
    responses_create_params: { ...base, metadata: { ...metadata, extra_body } },
  };
}
