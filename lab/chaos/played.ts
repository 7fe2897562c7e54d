import type { LabelReport } from '../bed/policy-labels.js';

/** What came of a batch or a stream that was played while something disturbed it. */
export interface Played {
  name: 'batch' | 'stream';
  rows_expected: number;
  rows: number;
  rows_duplicated: number;
  failures: number;
  /** Steps that the stream delivered in all, and those whose bytes have changed since. */
  steps: number;
  steps_changed: number;
  labels: LabelReport;
  /** What else is broken. */
  problems: string[];
}

/** The same in numbers. */
export interface Figures extends Omit<Played, 'labels' | 'problems'> {
  /** Tokens of the journals, those whose label is not that of the weights that sampled them, and those without one. */
  tokens: number;
  versions_wrong: number;
  unlabelled: number;
  turns_generated_twice: number;
  tokens_sampled_twice: number;
}

export function figuresOf({ labels, ...played }: Played): Figures {
  const { name, rows_expected, rows, rows_duplicated, failures, steps, steps_changed } = played;
  return {
    ...{ name, rows_expected, rows, rows_duplicated, failures, steps, steps_changed },
    tokens: labels.tokens,
    versions_wrong: labels.wrong.length,
    unlabelled: labels.unlabelled,
    turns_generated_twice: labels.turns_generated_twice,
    tokens_sampled_twice: labels.sampled_twice,
  };
}

const NONE = [
  'rows_duplicated',
  'failures',
  'versions_wrong',
  'turns_generated_twice',
  'steps_changed',
] as const;

/** Why what has to hold under any disturbance does not; empty: it holds. */
export function brokenIn(played: Played): string[] {
  const figures = figuresOf(played);
  const { rows, rows_expected } = figures;
  return [
    ...NONE.filter((name) => figures[name] !== 0).map(
      (name) => `${name}: expected 0, got ${figures[name]}`,
    ),
    ...(rows === rows_expected ? [] : [`rows: expected ${rows_expected}, got ${rows}`]),
    ...played.problems,
    ...played.labels.wrong.slice(0, 5),
  ];
}

export function figuresText(figures: Figures): string {
  const { rows, rows_expected, tokens } = figures;
  return [
    `rows ${rows} of ${rows_expected}, duplicated ${figures.rows_duplicated}, failures ${figures.failures}`,
    `tokens ${tokens}, versions wrong ${figures.versions_wrong}, without version ${figures.unlabelled}`,
    `turns twice ${figures.turns_generated_twice}, tokens twice ${figures.tokens_sampled_twice}`,
    ...(figures.steps === 0 ? [] : [`steps ${figures.steps}, changed ${figures.steps_changed}`]),
  ].join('; ');
}

/** A line with a verdict, and one for each problem. */
export const verdictLines = (text: string, broken: readonly string[]): string[] => [
  `${text}: ${broken.length === 0 ? 'ok' : 'BROKEN'}`,
  ...broken.map((one) => `  ${one}`),
];
