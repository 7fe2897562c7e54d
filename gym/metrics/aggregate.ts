import path from 'node:path';
import { mkdir } from 'node:fs/promises';
import { describeError } from '../../src/platform/errors.js';
import { collectionFiles } from '../collection/files.js';
import { numberOf, parseJson, type JsonObject } from '../json/exact.js';
import type { Scalar } from '../upload/exporter.js';
import { ANSWER_LIMITS, askAgent, type AnswerLimits } from './agent-answer.js';
import { agentRows, type AgentRows } from './agent-rows.js';
import { indentedJson } from '../../src/platform/json/indented.js';
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
  /** Two results of one key that differ are an error; absent: the first counts, and the others are reported. */
  refuse_conflicts?: boolean;
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
  /** Receives what is exported of each agent's metrics. */
  scalars?: Map<string, Scalar>;
}

/** Servers have failed to compute metrics of their own, which are therefore not in the file. */
export class AgentMetricsMissing extends Error {
  override readonly name = 'AgentMetricsMissing';
  readonly file: string;
  constructor(message: string, file: string) {
    super(message);
    this.file = file;
  }
}

/**
 * Upstream's `<stem>_aggregate_metrics.json`: one entry per agent, from its server's `/aggregate_metrics`. If there is
 * no server, or it has no such path, the entry is computed here by the same rules, with pass@k of the reward. If the
 * server fails, its own metrics would not be these: the agent has no entry, and in the end this throws
 * `AgentMetricsMissing`. The numbers of a million results fit into a few hundred MB: lines are read one at a time, and
 * the file is written as it is computed. Returns its path; null: there are no results.
 */
export async function aggregate(options: AggregateOptions): Promise<string | null> {
  const { inputs, output, merge = false, refuse_conflicts = false, only, signal, report } = options;
  const { answer_key = null, subset_key = null } = options;
  const label_keys = [answer_key, subset_key].filter((key) => key !== null);
  const read = await readRows({
    ...{ files: inputs, signal, report, results: true, label_keys },
    ...(only !== undefined && { only }),
  });
  try {
    options.onLoaded?.(read.table.size);
    const { agents, rows } = agentRows(read, { report, refuse_conflicts });
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
    const failed: string[] = [];
    await writeNewFile(file, (out) => writeAgents(out, { ...options, read, agents, failed }));
    if (failed.length > 0) throw new AgentMetricsMissing(failed.join('\n'), file);
    return file;
  } finally {
    read.index.close();
  }
}

interface Aggregation extends AggregateOptions {
  read: ReadRows;
  agents: AgentRows[];
  /** Receives, for each agent without an entry, why it has none. */
  failed: string[];
}

async function writeAgents(out: NewFile, { agents, ...aggregation }: Aggregation): Promise<void> {
  let before = '';
  await out.write('[');
  for (const { agent, rows } of agents) {
    if (agent === null) continue;
    const entry = await entryOf({ agent, rows }, aggregation);
    if (typeof entry === 'string') {
      aggregation.failed.push(entry);
      continue;
    }
    await out.write(`${before}\n  {\n    ${indentedEntry(agentRef(agent))}`);
    await out.write(`,\n    ${indentedEntry(['agent_metrics', entry.agent_metrics])}`);
    await out.write(`,\n    ${indentedEntry(['key_metrics', entry.key_metrics])}`);
    if (aggregation.scalars !== undefined) addScalars(aggregation.scalars, { agent, ...entry });
    aggregation.report(
      `\nKey metrics for ${agent}:\n${indentedJson(entry.key_metrics, { width: 4 })}`,
    );
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

/** Adds the metrics of one agent by upstream's names: `<agent>/<metric>` and `key_metrics/<agent>/<metric>`. */
export function addScalars(
  scalars: Map<string, Scalar>,
  { agent, agent_metrics, key_metrics }: Record<'agent' | 'agent_metrics' | 'key_metrics', string>,
): void {
  const parts = { [agent]: agent_metrics, [`key_metrics/${agent}`]: key_metrics };
  for (const [prefix, text] of Object.entries(parts)) {
    for (const [name, value] of Object.entries(parseJson(text) as JsonObject)) {
      const scalar = numberOf(value) ?? value;
      if (scalar !== null && typeof scalar !== 'object') scalars.set(`${prefix}/${name}`, scalar);
    }
  }
}

const indentedEntry = ([name, text]: [string, string]): string =>
  `${JSON.stringify(name)}: ${indentedJson(text, { depth: 2 })}`;

interface Entry {
  /** JSON texts. */
  agent_metrics: string;
  key_metrics: string;
  /** Pieces of the indented list. */
  groups: Iterable<string>;
}

/** Or why there is none. */
async function entryOf(
  { agent, rows }: { agent: string; rows: AgentRows['rows'] },
  aggregation: Omit<Aggregation, 'agents'>,
): Promise<Entry | string> {
  const { urlOf, read, limits = ANSWER_LIMITS, signal, report } = aggregation;
  function* lines(): Generator<string> {
    for (const row of rows) yield read.index.read(row);
  }
  const here = (why: string): Entry => {
    report(`the metrics of ${agent} are computed here: its server does not (${why})`);
    return computedEntry(aggregation, rows);
  };
  let url: string | null;
  try {
    url = await urlOf(agent);
  } catch (error) {
    signal.throwIfAborted();
    return here(describeError(error));
  }
  signal.throwIfAborted();
  if (url === null) return computedEntry(aggregation, rows);
  const answer = await askAgent({ url, lines: lines(), limits, signal });
  if ('absent' in answer) return here(answer.absent);
  if ('failed' in answer) {
    return (
      `${agent} has no entry in the metrics: POST ${url}/aggregate_metrics: ${answer.failed}. It has metrics of its own, so none are computed in their place. ` +
      'Mend its server and aggregate again; with +head_server.port=1, where no server is, all metrics are computed here.'
    );
  }
  return { ...answer, groups: [indentedJson(answer.group_level_metrics, { depth: 2 })] };
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
    yield `${before}\n      ${indentedJson(objectText(group), { depth: 3 })}`;
    before = ',';
  }
  yield '\n    ]';
}
