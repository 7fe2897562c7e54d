import assert from 'node:assert/strict';
import type { Row } from '../../src/model/results/row.js';
import type { StoredStep } from '../../src/model/stream/facts.js';

/**
 * The lag of a step, computed again from its rows and the births of its groups, token by token: what the stream says of
 * itself proves nothing. Streams of tests and of the chaos suite are all held to it, each step as it is delivered.
 */
export interface RecomputedLag {
  /** The lag of each token whose age is known. */
  lags: number[];
  unknown: number;
  /** Groups with a token beyond `max_lag`. */
  over: number;
  /** Tokens that are masked. */
  masked: number;
}

export interface Delivered {
  /** Groups of which nobody knows the birth are absent. */
  births: ReadonlyMap<number, number>;
  version: number;
  max_lag: number;
  /** Whether its rows have masks. */
  masks: boolean;
}

/** Groups of which nobody knows the birth have none. */
export const birthsOf = ({ delivered }: StoredStep): Map<number, number> =>
  new Map(delivered.flatMap(({ group, born }) => (born === null ? [] : [[group, born]])));

/** Throws where a mask is not what its token's age asks for, a masked token trains, or a token is older than its group. */
export function recomputedLag(rows: readonly Row[], delivered: Delivered): RecomputedLag {
  const { version, max_lag } = delivered;
  const lag: RecomputedLag = { lags: [], unknown: 0, over: 0, masked: 0 };
  const over = new Set<number>();
  for (const row of rows) {
    const isMasked = masksOf(row, delivered);
    const before = lag.masked;
    const own: (number | null)[] = [];
    // Of programs, masks of their other sequences are agent-rows.test.ts's.
    for (const run of versionsOf(row)) {
      const age = ageOf(run.version, { row, ...delivered });
      const isTooOld = age === null || age > max_lag;
      own.push(age);
      for (let token = run.start; token < run.end; token++) {
        if (age === null) lag.unknown += 1;
        else lag.lags.push(age);
        if (isMasked === null) continue;
        assert.equal(
          isMasked(token),
          isTooOld,
          `token ${token} of ${row.rollout_id}, step of version ${version}`,
        );
        lag.masked += Number(isTooOld);
      }
      if (age !== null && isTooOld) over.add(row.row);
    }
    const trained = row.train_mask.reduce((sum, { start, end }) => sum + end - start, 0);
    const sampled = row.loss_multiplier === 0 ? 0 : row.assistant_tokens;
    const untrained = sampled === 0 ? 0 : lag.masked - before;
    assert.equal(trained, sampled - untrained, `train_mask of ${row.rollout_id}`);
    const known = own.filter((lag) => lag !== null);
    const oldest = known.length === 0 || known.length < own.length ? null : Math.max(...known);
    assert.equal(row['token_lag'], oldest, `token_lag of ${row.row}`);
  }
  return { ...lag, over: over.size };
}

/** The versions of the row's own log, and of the sequences beside it that train. */
const versionsOf = ({ policy_versions, sequences = [] }: Row): Row['policy_versions'] => [
  ...policy_versions,
  ...sequences.filter(({ train }) => train).flatMap((one) => one.policy_versions),
];

/** null: rows of this stream have no masks. */
function masksOf(row: Row, { masks }: Delivered): ((token: number) => boolean) | null {
  const masked = row['masked'] as { start: number; end: number }[] | undefined;
  assert.equal(masked !== undefined, masks, `masks of ${row.rollout_id}`);
  return masked === undefined
    ? null
    : (token) => masked.some(({ start, end }) => start <= token && token < end);
}

/** How many versions a token is behind; null: nobody knows. */
function ageOf(
  label: string | null,
  { row, births, version }: Delivered & { row: Row },
): number | null {
  const born = births.get(row.row);
  if (label === null || !/^\d+$/.test(label)) return born === undefined ? null : version - born;
  const sampled = Number(label);
  if (born !== undefined)
    assert.ok(
      born <= sampled,
      `${row.rollout_id} was born at ${born} and has tokens of ${sampled}`,
    );
  return version - sampled;
}

/** The metrics of a step say what its rows say. */
export function checkLag(
  metrics: Record<string, number | null>,
  { lags, unknown, over }: RecomputedLag,
): void {
  assert.equal(metrics['lag/unknown'], unknown);
  if (lags.length === 0) assert.equal(metrics['lag/max'], undefined);
  else {
    const mean = lags.reduce((sum, lag) => sum + lag, 0) / lags.length;
    assert.ok(Math.abs((metrics['lag/mean'] ?? NaN) - mean) < 1e-9);
    assert.equal(
      metrics['lag/max'],
      lags.reduce((most, lag) => Math.max(most, lag)),
    );
    assert.equal(metrics['lag/over'], over);
  }
}
