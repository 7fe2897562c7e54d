import { verdictLines } from '../played.js';
import type { StoreKind } from '../stores.js';
import type { Judged } from './judge.js';
import type { Victim } from './kills.js';

export interface AgentsReport {
  schema_version: 1;
  seed: number;
  store: StoreKind;
  runs: RunReport[];
  ok: boolean;
}

/** One batch. */
export interface RunReport extends Judged {
  name: 'undisturbed' | 'killed' | 'mini' | 'opencode';
  kills: Partial<Record<Victim, number>>;
  /** What is there behind the end, and should not be. */
  left: string[];
  duration_s: number;
  /** Empty: nothing is broken. */
  broken: string[];
}

const NONE = ['lost', 'duplicated', 'sampled_again', 'diverged', 'abandoned'] as const;
const LISTS = ['over', 'different', 'taken_back', 'miscounted', 'rewards_wrong', 'left'] as const;
const MOST_SHOWN = 5;

export function judgedRun(run: Omit<RunReport, 'broken'>, victims: readonly Victim[]): RunReport {
  const { answers_used, logs } = run;
  const isKilled = run.name !== 'undisturbed';
  const broken = [
    ...NONE.filter((name) => run[name] !== 0).map(
      (name) => `${name}: expected 0, got ${run[name]}`,
    ),
    ...LISTS.flatMap((name) => shown(name, run[name])),
    ...(logs && answers_used === 0 ? ['answers_used: expected some, got 0'] : []),
    ...victims
      .filter((victim) => isKilled && (run.kills[victim] ?? 0) === 0)
      .map((victim) => `kills: expected some of ${victim}, got 0`),
    ...(isKilled && run.hit === 0 ? ['hit: expected some streams, got 0'] : []),
  ];
  return { ...run, broken };
}

function shown(name: string, list: readonly string[]): string[] {
  if (list.length === 0) return [];
  return [`${name}: expected none, got ${list.length}`, ...list.slice(0, MOST_SHOWN)];
}

export function linesOfRun(run: RunReport): string[] {
  const kills = Object.entries(run.kills).map(([victim, count]) => `${victim} ${count}`);
  const text = [
    `agents ${run.name}: ${kills.length === 0 ? 'no kills' : `kills: ${kills.join(', ')}`}`,
    `rollouts ${run.rollouts}, lost ${run.lost}, lives ${run.lives}, samples ${run.calls}`,
    `requests ${run.requests}, answers used ${run.answers_used}, different ${run.different.length}, taken back ${run.taken_back.length}`,
    `tokens ${run.tokens}, beyond the journals ${run.beyond} (of one call at most ${run.beyond_most}; ${run.hit} hit, which may cost ${run.beyond_limit})`,
    `rewards wrong ${run.rewards_wrong.length}, left behind ${run.left.length}; ${run.duration_s.toFixed(0)} s`,
  ].join('; ');
  return verdictLines(text, run.broken);
}
