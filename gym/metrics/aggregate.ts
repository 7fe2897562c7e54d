import path from 'node:path';
import { mkdir } from 'node:fs/promises';
import { describeError } from '../../src/platform/errors.js';
import { collectionFiles } from '../collection/files.js';
import { ANSWER_LIMITS, askAgent, type AnswerLimits } from './agent-answer.js';
import { agentRows, type AgentRows } from './agent-rows.js';
import { indentedJson, indentedObject } from '../../src/platform/json/indented.js';
import { writeNewFile, type NewFile } from '../new-file.js';
import { agentRef, createProfiler, keyMetrics } from './profile.js';
import { objectText } from '../../src/platform/json/members.js';
import { readRows, type ReadRows } from './table/read-rows.js';
import { rewardPasses } from './statistics/reward-passes.js';

export interface AggregateOptions {
  /** JSONL files of results, in any order. */
  inputs: readonly string[];
  /** `output_jsonl_fpath`, which names the metrics file. */
  output: string;
  /** Names of the rows whose results count; absent: all. */
  only?: ReadonlySet<string>;
  /** Also writes the results there, sorted by key. */
  merge?: boolean;
  /** The field of the extracted answer, for majority@k of metrics computed here. */
  answer_key?: string | null;
  /** The field that distinguishes tasks, for pass@k of each subset. */
  subset_key?: string | null;
  /** The agent's server; null: unknown. */
  urlOf: (agent: string) => Promise<string | null>;
  /** Limits of an agent server's answer. */
  limits?: AnswerLimits;
  signal: AbortSignal;
  /** Called with what was skipped, which servers did not answer, and the key metrics. */
  report: (line: string) => void;
  /** Called when all results are read, with their number. */
  onLoaded?: (results: number) => void;
}

/**
 * Upstream's `<stem>_aggregate_metrics.json`: one entry per agent, from its server's `/aggregate_metrics` if it
 * answers, otherwise computed here by the same rules, with pass@k of the reward. The numbers of a million results fit
 * into a few hundred MB: lines are read one at a time, and the file is written as it is computed. Returns its path;
 * null: there are no results.
 */
export async function aggregate(options: AggregateOptions): Promise<string | null> {
  const { inputs, output, merge = false, only, signal, report } = options;
  const { answer_key = null, subset_key = null } = options;
  const label_keys = [answer_key, subset_key].filter((key) => key !== null);
  const read = await readRows({
    ...{ files: inputs, signal, report, results: true, label_keys },
    ...(only !== undefined && { only }),
  });
  try {
    options.onLoaded?.(read.table.size);
    const { agents, rows } = agentRows(read, report);
    await mkdir(path.dirname(output), { recursive: true });
    if (merge) {
      report(`Merging shards into ${output}`);
      await writeNewFile(output, async (out) => {
        for (const row of rows) {
          signal.throwIfAborted();
          await out.write(`${read.index.read(row).trim()}\n`);
        }
      });
    }
    const unnamed = agents.find(({ agent }) => agent === null)?.rows.length ?? 0;
    if (unnamed > 0) report(`${unnamed} results name no agent: they are in no metrics`);
    if (rows.length === 0) return null;
    const { aggregate: file } = collectionFiles(output);
    await writeNewFile(file, (out) => writeAgents(out, { ...options, read, agents }));
    return file;
  } finally {
    read.index.close();
  }
}

interface Aggregation extends AggregateOptions {
  read: ReadRows;
  agents: AgentRows[];
}

async function writeAgents(out: NewFile, { agents, ...aggregation }: Aggregation): Promise<void> {
  let before = '';
  await out.write('[');
  for (const { agent, rows } of agents) {
    if (agent === null) continue;
    const entry = await entryOf({ agent, rows }, aggregation);
    await out.write(`${before}\n  {\n    ${indentedEntry(agentRef(agent))}`);
    await out.write(`,\n    ${indentedEntry(['agent_metrics', entry.agent_metrics])}`);
    await out.write(`,\n    ${indentedEntry(['key_metrics', entry.key_metrics])}`);
    aggregation.report(`\nKey metrics for ${agent}:\n${widely(entry.key_metrics)}`);
    await out.write(',\n    "group_level_metrics": ');
    for (const text of entry.groups) {
      aggregation.signal.throwIfAborted();
      await out.write(text);
    }
    await out.write('\n  }');
    before = ',';
  }
  await out.write(before === '' ? ']' : '\n]');
}

/** As Python's `indent=4`. */
const widely = (text: string): string =>
  indentedJson(text, 0).replaceAll(/^ +/gm, (indent) => indent.repeat(2));

const indentedEntry = ([name, text]: [string, string]): string =>
  `${JSON.stringify(name)}: ${indentedJson(text, 2)}`;

interface Entry {
  /** JSON texts. */
  agent_metrics: string;
  key_metrics: string;
  /** Pieces of the indented list. */
  groups: Iterable<string>;
}

async function entryOf(
  { agent, rows }: { agent: string; rows: AgentRows['rows'] },
  aggregation: Omit<Aggregation, 'agents'>,
): Promise<Entry> {
  const { urlOf, read, limits = ANSWER_LIMITS, signal, report } = aggregation;
  function* lines(): Generator<string> {
    for (const row of rows) yield read.index.read(row);
  }
  try {
    const url = await urlOf(agent);
    signal.throwIfAborted();
    if (url !== null) {
      const answer = await askAgent({ url, lines: lines(), limits, signal });
      return { ...answer, groups: [indentedJson(answer.group_level_metrics, 2)] };
    }
  } catch (error) {
    signal.throwIfAborted();
    const why = describeError(error);
    report(`the metrics of ${agent} are computed here: its server does not (${why})`);
  }
  return computedEntry(aggregation, rows);
}

/** The metrics of a server with default hooks, and pass@k. */
function computedEntry(
  { read: { table, labels }, answer_key = null, subset_key = null }: Omit<Aggregation, 'agents'>,
  rows: AgentRows['rows'],
): Entry {
  const profiler = createProfiler(table, rows);
  const metrics = profiler.agent(rows);
  const answers = answer_key === null ? null : (labels.at(0) ?? null);
  const subsets = subset_key === null ? null : (labels.at(-1) ?? null);
  const passes = rewardPasses({ table, answers, subsets }, rows);
  const groups = profiler.groups({
    sampleOf: () => '{"agent_ref":{"name":"agent"}}',
    expectedOf: (_task, found) => found,
  });
  return {
    agent_metrics: objectText([...metrics, ...passes.all]),
    key_metrics: objectText([...keyMetrics(metrics), ...passes.key]),
    groups: indentedGroups(groups),
  };
}

function* indentedGroups(groups: Iterable<[string, string][]>): Generator<string> {
  let before = '[';
  for (const group of groups) {
    yield `${before}\n      ${indentedObject(group, 3)}`;
    before = ',';
  }
  yield '\n    ]';
}
