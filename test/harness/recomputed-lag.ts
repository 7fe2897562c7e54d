import assert from 'node:assert/strict';
import type { Row } from '../../src/model/results/row.js';

/**
 * The lag of a step, computed again from its rows and the births of its groups, token by token: what the stream says of
 * itself proves nothing.
 */
export interface RecomputedLag {
  lags: number[];
  unknown: number;
  over: number;
}

/** Groups of which nobody knows the birth have none. */
export async function birthsOf(
  groups: readonly number[],
  admittedText: (group: number) => Promise<string>,
): Promise<Map<number, number>> {
  const births = new Map<number, number>();
  for (const group of groups) {
    const { born } = JSON.parse(await admittedText(group)) as { born: number | null };
    if (born !== null) births.set(group, born);
  }
  return births;
}

export function recomputedLag(
  rows: readonly Row[],
  {
    births,
    version,
    max_lag,
  }: { births: ReadonlyMap<number, number>; version: number; max_lag: number },
): RecomputedLag {
  const lags: number[] = [];
  const over = new Set<number>();
  let unknown = 0;
  for (const row of rows) {
    const own: (number | null)[] = [];
    const masked = row['masked'] as { start: number; end: number }[] | undefined;
    for (const run of row.policy_versions) {
      const label = run.version === null ? NaN : Number(run.version);
      const sampled = Number.isInteger(label) ? label : births.get(row.row);
      const lag = sampled === undefined ? null : version - sampled;
      own.push(lag);
      for (let token = run.start; token < run.end; token++) {
        if (lag === null) unknown += 1;
        else lags.push(lag);
        const isMasked = masked?.some(({ start, end }) => start <= token && token < end);
        if (isMasked !== undefined)
          assert.equal(isMasked, lag === null || lag > max_lag, `token ${token} of ${row.row}`);
      }
      if (lag !== null && lag > max_lag) over.add(row.row);
    }
    const known = own.filter((lag) => lag !== null);
    const oldest = known.length === 0 || known.length < own.length ? null : Math.max(...known);
    assert.equal(row['token_lag'], oldest, `token_lag of ${row.row}`);
  }
  return { lags, unknown, over: over.size };
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
    assert.equal(metrics['lag/max'], Math.max(...lags));
    assert.equal(metrics['lag/over'], over);
  }
}
