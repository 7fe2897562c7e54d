/** Failed rollouts by the type of their failure, each with the first message. */
export type Failures = Record<string, { rollouts: number; message: string }>;

/** They are in signals, queries and boards. */
const MOST_TEXT = 300;

export const oneFailure = ({ type, message }: { type: string; message: string }): Failures => ({
  [type]: { rollouts: 1, message: message.slice(0, MOST_TEXT) },
});

export function sumOf(all: readonly (Failures | undefined)[]): Failures {
  const sum = new Map<string, Failures[string]>();
  for (const [type, { rollouts, message }] of all.flatMap((one) => Object.entries(one ?? {}))) {
    const before = sum.get(type);
    sum.set(type, { rollouts: rollouts + (before?.rollouts ?? 0), message: before?.message ?? message }); // prettier-ignore
  }
  return Object.fromEntries(sum);
}

/** One line for each type, the most frequent first, for people. It quotes outside text. */
export const failureTexts = (failures: Failures = {}): string[] =>
  Object.entries(failures)
    .sort(([, a], [, b]) => b.rollouts - a.rollouts)
    .map(
      ([type, { rollouts, message }]) =>
        `${type} (${rollouts} ${rollouts === 1 ? 'rollout' : 'rollouts'}): ${message}`,
    );

/** Why most of them failed; null: none has. */
export function mostFrequentText(failures?: Failures): string | null {
  const [most] = failureTexts(failures);
  return most === undefined ? null : `most frequent failure: ${most}`;
}
