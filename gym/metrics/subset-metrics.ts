import {
  passMetrics,
  type PassMetrics,
  type PassOptions,
  type VerifyResponse,
} from './statistics/pass-metrics.js';

/** The pass metrics of the tasks whose first rollout has the same value at `subset_key`, as `<value>/<metric>`. */
export function subsetMetrics(
  tasks: readonly (readonly VerifyResponse[])[],
  { subset_key, ...options }: PassOptions & { subset_key: string },
): PassMetrics {
  const subsets = new Map<string, (readonly VerifyResponse[])[]>();
  for (const rollouts of tasks) {
    const value = rollouts[0]?.[subset_key];
    const isNamed = typeof value === 'string' || typeof value === 'number' || value === true;
    if (!isNamed || value === '' || value === 0) continue;
    const subset = subsets.get(String(value)) ?? [];
    subsets.set(String(value), subset);
    subset.push(rollouts);
  }
  const metrics: PassMetrics = {};
  for (const [name, subset] of subsets) {
    for (const [key, value] of Object.entries(passMetrics(subset, options).metrics)) {
      if (key !== 'per_sample_aggregate') metrics[`${name}/${key}`] = value;
    }
  }
  return metrics;
}
