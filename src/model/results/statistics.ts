export const sum = (values: readonly number[]): number =>
  values.reduce((total, value) => total + value, 0);
// Not `Math.max(...values)`: a batch may have more rollouts than a call may have arguments.
export const greatest = (values: readonly number[]): number =>
  values.reduce((a, b) => Math.max(a, b));
export const least = (values: readonly number[]): number => values.reduce((a, b) => Math.min(a, b));
export const mean = (values: readonly number[]): number => sum(values) / values.length;

export function rate<T>(values: readonly T[], holds: (value: T) => boolean): number {
  return values.filter(holds).length / values.length;
}

/** Sample standard deviation (n - 1); 0 for one value. */
export function standardDeviation(values: readonly number[]): number {
  if (values.length < 2) return 0;
  const centre = mean(values);
  return Math.sqrt(sum(values.map((value) => (value - centre) ** 2)) / (values.length - 1));
}

/** The middle value, or the mean of the two. */
export function median(values: readonly number[]): number {
  const sorted = values.toSorted((a, b) => a - b);
  const upper = sorted[Math.floor(sorted.length / 2)] ?? 0;
  return sorted.length % 2 === 1 ? upper : ((sorted[sorted.length / 2 - 1] ?? 0) + upper) / 2;
}

/** Linear interpolation between order statistics, as numpy's default. */
export function percentiles(
  values: readonly number[],
  { name, of }: { name: string; of: readonly number[] },
): Record<string, number> {
  const sorted = values.toSorted((a, b) => a - b);
  return Object.fromEntries(
    of.map((p) => {
      const at = (p / 100) * (sorted.length - 1);
      const low = sorted[Math.floor(at)] ?? 0;
      const high = sorted[Math.ceil(at)] ?? 0;
      return [`${name}/p${p}`, low + (high - low) * (at - Math.floor(at))];
    }),
  );
}

/** Upstream's `pct` (metric_utils.py), which does not interpolate. */
export function upstreamPercentile(values: readonly number[], p: number): number {
  const sorted = values.toSorted((a, b) => a - b);
  return sorted[Math.min(Math.floor((sorted.length * p) / 100), sorted.length - 1)] ?? 0;
}
