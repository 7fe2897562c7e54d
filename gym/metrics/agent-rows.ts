import type { Rows } from './statistics/describe.js';
import { duplicatesIn, sortedRows } from './statistics/key-order.js';
import { createProblemList } from './table/problem-list.js';
import type { ReadRows } from './table/read-rows.js';

/** The rows of one agent, sorted by key, each key once. */
export interface AgentRows {
  /** null: the rows name none. */
  agent: string | null;
  rows: Rows;
}

/**
 * Rows by agent, in the order of each agent's first row. For a repeated key of an agent the first row counts, and the
 * others are reported.
 */
export function agentRows(
  { table, index }: ReadRows,
  report: (line: string) => void,
): { agents: AgentRows[]; rows: Rows } {
  const sorted = sortedRows(table);
  const problems = createProblemList('results are duplicates and are skipped', report);
  const dropped = new Set<number>();
  const agents = splitByAgent(sorted, (row) => index.agentOf(row)).map(({ agent, rows }) => {
    for (const { first, again } of duplicatesIn(table, rows)) {
      const { task, rollout } = table.keyOf(again);
      problems.add(
        `${index.placeOf(again)} is skipped: ${task}-${rollout} is in ${index.placeOf(first)} already`,
      );
      dropped.add(again);
    }
    return { agent, rows: without(rows, dropped) };
  });
  problems.end();
  return { agents, rows: without(sorted, dropped) };
}

const without = (rows: Rows, dropped: ReadonlySet<number>): Rows =>
  dropped.size === 0 ? rows : rows.filter((row) => !dropped.has(row));

/** In the order of `rows`. */
export function splitByAgent(rows: Rows, agentOf: (row: number) => string | null): AgentRows[] {
  const counts = new Map<string | null, number>();
  for (const row of rows) counts.set(agentOf(row), (counts.get(agentOf(row)) ?? 0) + 1);
  const found = new Map<string | null, { own: Rows; filled: number }>();
  for (const [agent, count] of counts) {
    found.set(agent, { own: new Uint32Array(count), filled: 0 });
  }
  for (const row of rows) {
    const entry = found.get(agentOf(row));
    if (entry !== undefined) entry.own[entry.filled++] = row;
  }
  return [...found].map(([agent, { own }]) => ({ agent, rows: own }));
}
