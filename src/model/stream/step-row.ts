import type { Metrics } from '../results/metrics.js';
import { isValid } from '../results/metrics.js';
import type { Row } from '../results/row.js';
import type { Summary } from '../results/summary.js';
import { UNKNOWN, tokensByVersion } from '../results/summary.js';
import { tooOldRuns, versionOf } from '../workflow-safe/stream/lag.js';

/** The step that delivers a row, and the version that trains on it. */
export interface DeliveredIn {
  step: number;
  version: number | null;
  max_lag: number;
  /** Whether tokens that are too old are masked. */
  masks: boolean;
  /** Each group's birth version: no token of it is older. Groups of which nobody knows it are absent. */
  born: ReadonlyMap<number, number>;
}

interface Folded {
  row: Row;
  summary: Summary;
}

/** A row as its step delivers it: with its place in the stream, and the runs of tokens that are too old to train on. */
export function inStep(
  { row, summary }: Folded,
  {
    version,
    max_lag,
    masks,
    born: borns,
    ...place
  }: DeliveredIn & { sample_row?: number; epoch?: number },
): Folded {
  const born = borns.get(row.row) ?? null;
  const masked =
    masks && version !== null ? tooOldRuns(row.policy_versions, { born, version, max_lag }) : null;
  // A token of unknown version may be as old as its group.
  const versions = tokensByVersion(row, (label) => String(versionOf(label) ?? born ?? UNKNOWN));
  return {
    row: { ...row, ...place, ...(masked !== null && { masked }) },
    summary: { ...summary, versions },
  };
}

/**
 * How far the tokens of a step's valid rows are behind its version; `lag/over` counts groups with a token beyond
 * `max_lag`, `lag/unknown` tokens of which nobody can know it.
 */
export function lagMetrics(
  all: readonly Summary[],
  { version, max_lag }: Pick<DeliveredIn, 'version' | 'max_lag'>,
): Metrics {
  if (version === null) return {};
  let [tokens, lags, most, unknown] = [0, 0, -Infinity, 0];
  const over = new Set<number>();
  for (const { row, versions = {} } of all.filter(isValid)) {
    for (const [sampled, count] of Object.entries(versions)) {
      if (sampled === UNKNOWN) {
        unknown += count;
        continue;
      }
      const lag = version - Number(sampled);
      tokens += count;
      lags += lag * count;
      most = Math.max(most, lag);
      if (lag > max_lag) over.add(row);
    }
  }
  return {
    ...(tokens > 0 && { 'lag/mean': lags / tokens, 'lag/max': most, 'lag/over': over.size }),
    ...(tokens + unknown > 0 && { 'lag/unknown': unknown }),
  };
}
