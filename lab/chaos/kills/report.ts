import type { Figures, Played } from '../played.js';
import { brokenIn, figuresOf, figuresText, verdictLines } from '../played.js';
import type { Struck } from './striking.js';
import { KILLS } from './striking.js';

/** What was played while the stack was struck, and what came of it. */
export interface KillsReport extends Figures, Struck {
  duration_s: number;
  /** Why the stack is not up; null: it is. */
  stack_down: string | null;
  /** Examples of wrong versions, and what else is broken; empty: nothing. */
  broken: string[];
}

export function judgedKills(
  played: Played,
  { struck, ...more }: { struck: Struck } & Pick<KillsReport, 'duration_s' | 'stack_down'>,
): KillsReport {
  const { during } = struck;
  const { stack_down } = more;
  const broken = [
    ...brokenIn(played),
    ...(during < KILLS ? [`kills while it was played: expected ${KILLS}, got ${during}`] : []),
    ...(stack_down === null ? [] : [`the stack is not up: ${stack_down}`]),
  ];
  return { ...figuresOf(played), ...struck, ...more, broken };
}

export function linesOfKills(report: KillsReport): string[] {
  const { name, kills, longest_gap_s, broken } = report;
  const struck = Object.entries(kills).map(([victim, count]) => `${victim} ${count}`);
  const text = [
    `kills during a ${name}: ${struck.join(', ')} (longest gap ${longest_gap_s.toFixed(1)} s)`,
    figuresText(report),
    `${report.duration_s.toFixed(0)} s, the stack ${report.stack_down === null ? 'is up' : 'is down'}`,
  ].join('; ');
  return verdictLines(text, broken);
}
