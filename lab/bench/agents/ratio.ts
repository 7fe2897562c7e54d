/** The ratio of the means of two lists of pairs, and where it lies by nineteen of twenty samples (delta method). */
export function intervalOf(
  these: readonly number[],
  those: readonly number[],
): { ratio: number; low: number; high: number } {
  if (these.length !== those.length || these.length < 2)
    throw new Error(`expected two lists of pairs, got ${these.length} and ${those.length} numbers`);
  const mean = (values: readonly number[]): number =>
    values.reduce((sum, one) => sum + one, 0) / values.length;
  const ratio = mean(these) / mean(those);
  const residuals = these.map((one, k) => one - ratio * (those[k] ?? 0));
  const variance = residuals.reduce((sum, one) => sum + one * one, 0) / (these.length - 1);
  const width = (1.96 * Math.sqrt(variance / these.length)) / mean(those);
  return { ratio, low: ratio - width, high: ratio + width };
}
