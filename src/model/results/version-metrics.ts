import { versionOf } from '../workflow-safe/stream/lag.js';
import type { Metrics } from './metrics.js';
import { isValid } from './metrics.js';
import { greatest, least, rate, sum } from './statistics.js';
import type { Summary } from './summary.js';
import { UNKNOWN } from './summary.js';

/**
 * Which weights sampled the tokens of a batch's valid rollouts, by the labels of its rows: a policy that moves while the
 * batch runs mixes them. Nothing if no token has a label. `expected`: the request's `policy_version`.
 */
export function versionMetrics(all: readonly Summary[], expected: string | null): Metrics {
  const counts = all.filter(isValid).map(({ versions = {} }) => versions);
  const rows = counts.map((versions) => Object.keys(versions)).filter(({ length }) => length > 0);
  const labels = new Set(rows.flat());
  labels.delete(UNKNOWN);
  if (labels.size === 0) return {};
  const numbers = [...labels].map(versionOf).filter((version) => version !== null);
  const isOf = (row: readonly string[], label: string | undefined): boolean =>
    row.length === 1 && row[0] === label && label !== UNKNOWN;
  return {
    ...(numbers.length > 0 && {
      'versions/min': least(numbers),
      'versions/max': greatest(numbers),
    }),
    'versions/one_rate': rate(rows, (row) => isOf(row, row[0])),
    ...(expected !== null && {
      'versions/expected_rate': rate(rows, (row) => isOf(row, expected)),
    }),
    'versions/unknown': sum(counts.map((versions) => versions[UNKNOWN] ?? 0)),
  };
}
