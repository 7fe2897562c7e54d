import type { Figures, Played } from '../played.js';
import { brokenIn, figuresOf, figuresText, verdictLines } from '../played.js';
import type { Operated } from './operate.js';
import { OPERATIONS } from './operations.js';

/** What an operator did to a batch or a stream, and what came of it. */
export interface DayReport extends Figures, Omit<Operated, 'problems'> {
  duration_s: number;
  /** Empty: nothing. */
  broken: string[];
}

export function judgedDay(
  played: Played,
  { operated, duration_s }: { operated: Operated; duration_s: number },
): DayReport {
  const { problems, ...done } = operated;
  const missing = OPERATIONS.filter(({ name }) => !done.operations.includes(name));
  return {
    ...figuresOf(played),
    ...done,
    duration_s,
    broken: [
      ...missing.map(({ name }) => `${name}: expected while it was played, it was not done`),
      ...problems,
      ...brokenIn(played),
    ],
  };
}

export function linesOfDay(report: DayReport): string[] {
  const { name, operations, longest_unnamed_s, duration_s, broken } = report;
  const text = [
    `an operator's day of a ${name}: ${operations.length} operations (waits named within ${longest_unnamed_s.toFixed(1)} s)`,
    figuresText(report),
    `${duration_s.toFixed(0)} s`,
  ].join('; ');
  return verdictLines(text, broken);
}
