import type { Metrics } from '../results/metrics.js';
import { isValid } from '../results/metrics.js';
import type { Row } from '../results/row.js';
import type { Summary } from '../results/summary.js';
import { UNKNOWN, tokensByVersion } from '../results/summary.js';
import { withMasks } from '../results/train-mask.js';
import { tooOldRuns, versionOf } from '../workflow-safe/stream/lag.js';
import type { Overtaken } from '../workflow-safe/stream/next-step.js';
import { overtakenText } from '../workflow-safe/stream/next-step.js';
import type { StreamSettings } from './stream-request.js';

export interface DeliveredIn {
  step: number;
  version: number | null;
  max_lag: number;
  masks: boolean;
  /** Each group's birth version: no token of it is older. Groups of which nobody knows it are absent. */
  born: ReadonlyMap<number, number>;
}

export interface Folded {
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
  const rule = masks && version !== null ? { born, version, max_lag } : null;
  const tooOld =
    rule &&
    (({ policy_versions }: Pick<Row, 'policy_versions'>) => tooOldRuns(policy_versions, rule));
  // A token of unknown version may be as old as its group.
  const versions = tokensByVersion(row, (label) => String(versionOf(label) ?? born ?? UNKNOWN));
  const lag = version !== null && { token_lag: lagOf(Object.keys(versions), version) };
  return {
    row: {
      ...(tooOld === null
        ? row
        : withMasks(row, { trains: row.train_mask.length > 0, masks: tooOld })),
      ...place,
      ...lag,
    },
    summary: { ...summary, versions, ...inGroup(summary) },
  };
}

/** The task of an agent's group is its number, also where no member of it has begun. */
const inGroup = ({ agent, row }: Summary): Pick<Summary, 'agent'> =>
  agent === undefined ? {} : { agent: { ...agent, task_index: row } };

/** How many versions the oldest token lags behind. null: nobody knows it, or there is none. */
const lagOf = (sampled: readonly string[], version: number): number | null =>
  sampled.length === 0 || sampled.includes(UNKNOWN)
    ? null
    : version - Math.min(...sampled.map(Number));

/** `lag/over` counts groups with a token beyond `max_lag`, `lag/unknown` tokens of which nobody can know it. */
export function lagMetrics(
  all: readonly Summary[],
  { version, max_lag }: Pick<DeliveredIn, 'version' | 'max_lag'>,
): Metrics {
  if (version === null) return {};
  const { tokens, lags, most, unknown, over } = lagsOf(all, { version, max_lag });
  return {
    ...(tokens > 0 && { 'lag/mean': lags / tokens, 'lag/max': most, 'lag/over': over.length }),
    ...(tokens + unknown > 0 && { 'lag/unknown': unknown }),
  };
}

/** Says which groups are too old, and why. null: none is, or what is too old is masked. */
export function overtakenNote(
  all: readonly Summary[],
  {
    step,
    version,
    masks,
    before,
    ...rule
  }: Pick<DeliveredIn, 'step' | 'version' | 'max_lag' | 'masks'> &
    Pick<StreamSettings, 'versions_per_step'> &
    Pick<Overtaken, 'before'>,
): string | null {
  if (version === null || masks) return null;
  const { most: behind, over: groups } = lagsOf(all, { version, max_lag: rule.max_lag });
  if (groups.length === 0) return null;
  const overtaken = { groups, behind, version, before, verb: ['has', 'have'] as const };
  return `step ${step}: ${overtakenText(overtaken, rule)}`;
}

function lagsOf(
  all: readonly Summary[],
  { version, max_lag }: { version: number; max_lag: number },
): { tokens: number; lags: number; most: number; unknown: number; over: number[] } {
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
  return { tokens, lags, most, unknown, over: [...over].sort((a, b) => a - b) };
}
