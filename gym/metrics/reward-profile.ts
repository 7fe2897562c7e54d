import { collectionFiles } from '../collection/files.js';
import { ROLLOUT_INDEX, TASK_INDEX } from '../keys.js';
import { byCodePoints } from '../python/repr.js';
import { splitByAgent } from './agent-rows.js';
import { align, mismatchOf, type Alignment } from './statistics/alignment.js';
import { membersOf, objectText } from '../../src/platform/json/members.js';
import { writeNewFile, type NewFile } from '../new-file.js';
import { agentRef, createProfiler, type Profiler } from './profile.js';
import { readRows, type ReadRows } from './table/read-rows.js';
import type { Rows } from './statistics/describe.js';
import type { Keyed } from './statistics/key-order.js';

export interface ProfileOptions {
  materialized_inputs_jsonl_fpath: string;
  rollouts_jsonl_fpath: string;
  allow_partial_rollouts: boolean;
  signal: AbortSignal;
  /** Lines of results that were skipped, and why. */
  report: (line: string) => void;
}

interface Profile {
  inputs: ReadRows;
  alignment: Alignment;
  profiler: Profiler;
}

/**
 * Upstream's reward profile of a collection, in two files beside its results: a line per task, and a list with an entry
 * per agent. Throws with upstream's texts if results and rows do not match.
 */
export async function rewardProfile(options: ProfileOptions) {
  const { signal, report, rollouts_jsonl_fpath: rollouts } = options;
  const files = [options.materialized_inputs_jsonl_fpath];
  const inputs = await readRows({ files, signal, report, results: false, strict: true });
  const results = await readRows({ files: [rollouts], signal, report, results: true });
  try {
    const tables = { inputs: inputs.table, results: results.table };
    const alignment = align(tables);
    const mismatch = mismatchOf(tables, alignment);
    const refusal = mismatch.extra ?? (options.allow_partial_rollouts ? null : mismatch.missing);
    if (refusal !== null) throw new Error(refusal);
    const { reward_profiling, agent_metrics } = collectionFiles(rollouts);
    const profiler = createProfiler(results.table, alignment.results);
    const profile = { inputs, alignment, profiler };
    await writeNewFile(reward_profiling, (out) => writeGroups(out, profile));
    await writeNewFile(agent_metrics, (out) => out.write(agentsText(profile)));
    const summary = completionSummary(inputs.table, alignment);
    return { summary, files: { reward_profiling, agent_metrics } };
  } finally {
    inputs.index.close();
  }
}

async function writeGroups(out: NewFile, { inputs, alignment, profiler }: Profile): Promise<void> {
  const expected = countByTask(inputs.table, alignment.all);
  const firstOf = new Map<number, number>();
  for (const row of alignment.inputs) {
    const { task } = inputs.table.keyOf(row);
    if (!firstOf.has(task)) firstOf.set(task, row);
  }
  const groups = profiler.groups({
    sampleOf: (task) => sampleText(inputs.index.read(firstOf.get(task) ?? 0)),
    expectedOf: (task) => expected.get(task) ?? 0,
  });
  for (const group of groups) await out.write(`${objectText(group)}\n`);
}

/** A materialised row without its place in the collection. */
function sampleText(line: string): string {
  const members = membersOf(line) ?? new Map<string, string>();
  members.delete(TASK_INDEX);
  members.delete(ROLLOUT_INDEX);
  return objectText(members);
}

/** Sorted by name; the agent of a result is that of its row. */
function agentsText({ inputs, alignment, profiler }: Profile): string {
  const pairs = alignment.results.map((_, pair) => pair);
  const agents = splitByAgent(pairs, (pair) => {
    const row = alignment.inputs[pair] ?? 0;
    const name = inputs.index.agentOf(row);
    if (name === null) throw new Error(`${inputs.index.placeOf(row)} has no agent_ref.name`);
    return name;
  });
  const entries = agents
    .map(({ agent, rows }) => ({
      agent: agent ?? '',
      rows: rows.map((pair) => alignment.results[pair] ?? 0),
    }))
    .sort((a, b) => byCodePoints(a.agent, b.agent))
    .map(({ agent, rows }) => objectText([...profiler.agent(rows), agentRef(agent)]));
  return `[${entries.join(',')}]`;
}

/** How much of what was requested exists; upstream's names. */
export function completionSummary(inputs: Keyed, { all, missing, extra }: Alignment) {
  const missingByTask = countByTask(inputs, missing);
  const inputByTask = countByTask(inputs, all);
  const counts = { complete: 0, partial: 0, missing: 0 };
  for (const [task, expected] of inputByTask) {
    const lacking = missingByTask.get(task) ?? 0;
    counts[lacking === 0 ? 'complete' : lacking < expected ? 'partial' : 'missing'] += 1;
  }
  const expected = all.length;
  const completed = expected - missing.length;
  return {
    expected_rollout_rows: expected,
    completed_rollout_rows: completed,
    missing_rollout_rows: missing.length,
    extra_rollout_rows: extra.length,
    reward_profile_completion_pct: expected === 0 ? 100 : (100 * completed) / expected,
    total_input_rows: inputByTask.size,
    complete_input_rows: counts.complete,
    partial_input_rows: counts.partial,
    missing_input_rows: counts.missing,
  };
}

/** How many of some rows each task has. */
export function countByTask(keyed: Keyed, rows: Rows): Map<number, number> {
  const counts = new Map<number, number>();
  for (const row of rows) {
    const { task } = keyed.keyOf(row);
    counts.set(task, (counts.get(task) ?? 0) + 1);
  }
  return counts;
}
