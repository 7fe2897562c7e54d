import type { Published } from '../../model/policy/record.js';

/** The first token whose logprob is not the trainer's, in words; null: they are all the same. */
export function worstOf(
  got: readonly number[],
  { logprobs, tolerance }: Pick<NonNullable<Published['probe']>, 'logprobs' | 'tolerance'>,
): string | null {
  const differences = got.map((logprob, i) => Math.abs(logprob - (logprobs[i] ?? NaN)));
  if (differences.every((difference) => difference <= tolerance)) return null;
  const worst = differences.indexOf(Math.max(...differences));
  return `token ${worst + 1}: expected logprob ${logprobs[worst] ?? 'none'} ± ${tolerance}, got ${got[worst] ?? 'none'}: these are not the weights that were published`;
}
