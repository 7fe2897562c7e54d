import type { Row, Summary } from '../row.js';
import { isValid } from '../metrics.js';
import type { Metrics } from '../metrics.js';

/** Which step delivers a row, and under which version it is trained on. */
export interface DeliveredIn {
  step: number;
  version: number | null;
  max_lag: number;
  /** Are tokens that are too old masked? */
  masks: boolean;
}

interface Folded {
  row: Row;
  summary: Summary;
}

/** A row as its step delivers it: with its place in the stream, and the runs of tokens that are too old to train on. */
export function inStep(
  { row, summary }: Folded,
  { version, max_lag, masks, ...place }: DeliveredIn & { sample_row?: number; epoch?: number },
): Folded {
  const masked =
    masks && version !== null ? tooOld(row.policy_versions, { version, max_lag }) : null;
  const versions: Record<string, number> = {};
  for (const { start, end, version: label } of row.policy_versions)
    versions[label ?? ''] = (versions[label ?? ''] ?? 0) + end - start;
  return {
    row: { ...row, ...place, ...(masked !== null && { masked }) },
    summary: { ...summary, versions },
  };
}

function tooOld(
  runs: Row['policy_versions'],
  { version, max_lag }: { version: number; max_lag: number },
): { start: number; end: number }[] {
  return runs.flatMap(({ start, end, version: label }) => {
    const sampled = numberOf(label ?? '');
    return sampled !== null && version - sampled > max_lag ? [{ start, end }] : [];
  });
}

/** Labels are texts, and those of `publish` are whole numbers. */
const numberOf = (label: string): number | null => (/^-?\d+$/.test(label) ? Number(label) : null);

/** How far behind the step's version the tokens of its valid rows are; `lag/over` counts groups with one beyond `max_lag`. */
export function lagMetrics(
  all: readonly Summary[],
  { version, max_lag }: Pick<DeliveredIn, 'version' | 'max_lag'>,
): Metrics {
  if (version === null) return {};
  let [tokens, lags, most, unknown] = [0, 0, -Infinity, 0];
  const over = new Set<number>();
  for (const { row, versions = {} } of all.filter(isValid)) {
    for (const [label, count] of Object.entries(versions)) {
      const sampled = numberOf(label);
      if (sampled === null) {
        unknown += count;
        continue;
      }
      const lag = version - sampled;
      tokens += count;
      lags += lag * count;
      most = Math.max(most, lag);
      if (lag > max_lag) over.add(row);
    }
  }
  return {
    ...(tokens > 0 && { 'lag/mean': lags / tokens, 'lag/max': most, 'lag/over': over.size }),
    ...(unknown > 0 && { 'lag/unknown_tokens': unknown }),
  };
}
