import type { Members } from '../../../src/platform/json/members.js';
import { numberIn } from '../../json/exact.js';
import type { GymRow } from '../../row.js';
import { rolloutName } from '../../row.js';
import type { Routed } from './routing.js';

/** The state of a running collection. */
export interface Tally {
  /** Rows that this run plays. */
  total: number;
  /** How many of them have a result, a failure, or an answer that must not be written. */
  done: number;
  /** How many of them failed last. */
  failed: number;
  unpersisted: number;
  /** Rows that had a result before. */
  cached: number;
  agents: Map<string, AgentTally>;
}

export interface AgentTally {
  total: number;
  done: number;
  /** Sums over `results` of their top-level numbers, except `_…`: upstream's running means. */
  results: number;
  sums: Map<string, number>;
}

export function createTally({
  rows,
  cached,
  failed = new Set(),
}: {
  /** The rows that this run plays. */
  rows: readonly GymRow[];
  cached: number;
  /** Names of rows that this batch has failed before, and may play again. */
  failed?: ReadonlySet<string>;
}) {
  const agents = new Map<string, AgentTally>();
  const tally: Tally = { total: rows.length, done: 0, failed: 0, unpersisted: 0, cached, agents };
  const last = new Map<string, Routed['to']>();
  for (const { key, agent } of rows) {
    const own = agentOf(agents, agent);
    own.total += 1;
    if (!failed.has(rolloutName(key))) continue;
    last.set(rolloutName(key), 'failures');
    own.done += 1;
    tally.done += 1;
    tally.failed += 1;
  }
  const count = ({ to, row, result }: Routed): void => {
    const name = rolloutName(row.key);
    const before = last.get(name);
    last.set(name, to);
    const own = agentOf(agents, row.agent);
    if (before === undefined) {
      tally.done += 1;
      own.done += 1;
    }
    tally.failed += Number(to === 'failures') - Number(before === 'failures');
    tally.unpersisted += Number(to === 'nowhere') - Number(before === 'nowhere');
    // A failure has no reward, so it does not count here either.
    if (to === 'main') addNumbers(own, result);
  };
  return { tally, count };
}

function agentOf(agents: Map<string, AgentTally>, name: string): AgentTally {
  const known = agents.get(name);
  if (known !== undefined) return known;
  const agent: AgentTally = { total: 0, done: 0, results: 0, sums: new Map() };
  agents.set(name, agent);
  return agent;
}

/** Booleans are numbers, as in Python. */
function addNumbers(agent: AgentTally, result: Members): void {
  agent.results += 1;
  for (const [key, text] of result) {
    if (key.startsWith('_')) continue;
    const number = numberIn(text);
    if (number !== null) agent.sums.set(key, (agent.sums.get(key) ?? 0) + number);
  }
}

/** Divided by the number of the agent's results, with or without the key, as upstream does. */
export const meansOf = ({ sums, results }: AgentTally): [string, number][] =>
  [...sums].map(([key, sum]) => [key, sum / results]);
