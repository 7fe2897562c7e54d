import type { Rows } from './statistics/describe.js';
import { duplicatesIn, sortedRows } from './statistics/key-order.js';
import { createProblemList, type ReadRows } from './table/read-rows.js';

/** The rows of one agent, sorted by key, each key once. */
export interface AgentRows {
  /** null: the rows name none. */
  agent: string | null;
  rows: Rows;
}

/**
 * Rows by agent, in the order of each agent's first row. For a repeated key of an agent the first row counts, and the
 * others are reported; `refuse_conflicts`: an error if one of them says something else.
 */
export function agentRows(
  { table, index }: ReadRows,
  { report, refuse_conflicts }: { report: (line: string) => void; refuse_conflicts: boolean },
): { agents: AgentRows[]; rows: Rows } {
  const sorted = sortedRows(table);
  const problems = createProblemList('results are duplicates and are skipped', report);
  const conflicts: string[] = [];
  const dropped = new Set<number>();
  const agents = splitByAgent(sorted, (row) => index.agentOf(row)).map(({ agent, rows }) => {
    for (const { first, again } of duplicatesIn(table, rows)) {
      const { task, rollout } = table.keyOf(again);
      dropped.add(again);
      if (refuse_conflicts && index.read(first).trim() !== index.read(again).trim()) {
        conflicts.push(
          `${index.placeOf(again)}, and ${index.placeOf(first)}, are ${task}-${rollout}`,
        );
        continue;
      }
      problems.add(
        `${index.placeOf(again)} is skipped: ${task}-${rollout} is in ${index.placeOf(first)} already`,
      );
    }
    return { agent, rows: without(rows, dropped) };
  });
  if (conflicts.length > 0) throw conflict(conflicts, table.size);
  problems.end();
  return { agents, rows: without(sorted, dropped) };
}

const NAMED = 3;

/** Metrics over what is left would look whole. */
function conflict(conflicts: readonly string[], results: number): Error {
  const more = conflicts.length - NAMED;
  return new Error(
    `${conflicts.length} of ${results} results have the task and the rollout of another result of their agent, and are not the same:\n` +
      conflicts
        .slice(0, NAMED)
        .map((text) => `  - ${text}\n`)
        .join('') +
      (more > 0 ? `  - and ${more} more\n` : '') +
      'Nothing was written. Shards that each number their tasks from 0 give several tasks one number: give the rows of the whole input ' +
      'their own _ng_task_index before they are split, or add to that of each shard here the number of tasks before it. ' +
      'Of two results of one row, remove one.',
  );
}

const without = (rows: Rows, dropped: ReadonlySet<number>): Rows =>
  dropped.size === 0 ? rows : rows.filter((row) => !dropped.has(row));

/** In the order of `rows`. */
export function splitByAgent(rows: Rows, agentOf: (row: number) => string | null): AgentRows[] {
  const found = new Map<string | null, number[]>();
  for (const row of rows) {
    const agent = agentOf(row);
    const own = found.get(agent) ?? [];
    if (own.push(row) === 1) found.set(agent, own);
  }
  return [...found].map(([agent, own]) => ({ agent, rows: Uint32Array.from(own) }));
}
