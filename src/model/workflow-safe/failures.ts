import type { Failures } from '../results/answers.js';

const MOST_TEXT = 300;

export const oneFailure = ({
  type,
  message,
  ...found
}: { type: string } & Omit<Failures[string], 'rollouts'>): Failures => ({
  [type]: { rollouts: 1, message: message.slice(0, MOST_TEXT), ...found },
});

export function sumOf(all: readonly (Failures | undefined)[]): Failures {
  const sum = new Map<string, Failures[string]>();
  for (const [type, one] of all.flatMap((each) => Object.entries(each ?? {}))) {
    const before = sum.get(type);
    sum.set(type, { ...one, ...before, rollouts: one.rollouts + (before?.rollouts ?? 0) });
  }
  return Object.fromEntries(sum);
}

/** One line for each type, the most frequent first, for people. It quotes outside text. */
export const failureTexts = (failures: Failures = {}): string[] =>
  Object.entries(failures)
    .sort(([, a], [, b]) => b.rollouts - a.rollouts)
    .map(([type, { rollouts, message, example }]) => {
      const such = example === undefined ? '' : `, such as ${example}`;
      return `${type} (${rollouts} ${rollouts === 1 ? 'rollout' : 'rollouts'}${such}): ${message}`;
    });

/** Why most of them failed; null: none has. */
export function mostFrequentText(failures?: Failures): string | null {
  const [most] = failureTexts(failures);
  return most === undefined ? null : `most frequent failure: ${most}`;
}

/** What the journal and the workflow say of a rollout that `overlong: drop` has made a failure. */
export const OVERLONG = {
  type: 'Overlong',
  message: 'it was truncated, and the request drops such rollouts (overlong)',
} as const;
