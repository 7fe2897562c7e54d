import type { LabelReport } from '../../test/harness/policy-labels.js';
import type { Struck } from './striking.js';
import { KILLS } from './striking.js';

/** What was played while the stack was struck, and what came of it. */
export interface KillsReport extends Struck {
  name: 'batch' | 'stream';
  rows_expected: number;
  rows: number;
  rows_duplicated: number;
  failures: number;
  /** Tokens of the journals, those whose label is not that of the weights that sampled them, and those without one. */
  tokens: number;
  versions_wrong: number;
  unlabelled: number;
  turns_generated_twice: number;
  tokens_sampled_twice: number;
  /** Steps that the stream delivered in all, and those whose bytes have changed since. */
  steps: number;
  steps_changed: number;
  duration_s: number;
  /** Why the stack is not up; null: it is. */
  stack_down: string | null;
  /** Examples of wrong versions, and what else is broken; empty: nothing. */
  broken: string[];
}

export type Played = Pick<
  KillsReport,
  'name' | 'rows_expected' | 'rows' | 'rows_duplicated' | 'failures' | 'steps' | 'steps_changed'
> & { labels: LabelReport; problems: string[] };

export function judgedKills(
  { labels, problems, ...played }: Played,
  { struck, ...more }: { struck: Struck } & Pick<KillsReport, 'duration_s' | 'stack_down'>,
): KillsReport {
  const report = {
    ...played,
    ...struck,
    ...more,
    tokens: labels.tokens,
    versions_wrong: labels.wrong.length,
    unlabelled: labels.unlabelled,
    turns_generated_twice: labels.turns_generated_twice,
    tokens_sampled_twice: labels.sampled_twice,
  };
  const none = [
    'rows_duplicated',
    'failures',
    'versions_wrong',
    'turns_generated_twice',
    'steps_changed',
  ] as const;
  const broken = none
    .filter((name) => report[name] !== 0)
    .map((name) => `${name}: expected 0, got ${report[name]}`);
  const { rows, rows_expected, during, stack_down } = report;
  if (rows !== rows_expected) broken.push(`rows: expected ${rows_expected}, got ${rows}`);
  if (during < KILLS) broken.push(`kills while it was played: expected ${KILLS}, got ${during}`);
  if (stack_down !== null) broken.push(`the stack is not up: ${stack_down}`);
  return { ...report, broken: [...broken, ...problems, ...labels.wrong.slice(0, 5)] };
}

export function linesOfKills(report: KillsReport): string[] {
  const { name, kills, longest_gap_s, rows, rows_expected, tokens, broken } = report;
  const struck = Object.entries(kills).map(([victim, count]) => `${victim} ${count}`);
  const text = [
    `kills during a ${name}: ${struck.join(', ')} (longest gap ${longest_gap_s.toFixed(1)} s)`,
    `rows ${rows} of ${rows_expected}, duplicated ${report.rows_duplicated}, failures ${report.failures}`,
    `tokens ${tokens}, versions wrong ${report.versions_wrong}, without version ${report.unlabelled}`,
    `turns twice ${report.turns_generated_twice}, tokens twice ${report.tokens_sampled_twice}`,
    ...(report.steps === 0 ? [] : [`steps ${report.steps}, changed ${report.steps_changed}`]),
    `${report.duration_s.toFixed(0)} s, the stack ${report.stack_down === null ? 'is up' : 'is down'}`,
  ].join('; ');
  return [`${text}: ${broken.length === 0 ? 'ok' : 'BROKEN'}`, ...broken.map((one) => `  ${one}`)];
}
