import assert from 'node:assert/strict';
import type { Row } from '../../src/model/results/row.js';
import type { BatchOutcome } from '../../lab/bed/batch.js';

/**
 * A row without the columns that a retry may change. Everything else, above all token ids and logprobs, must be equal
 * to the byte.
 *
 * - `timing`: seconds of all attempts;
 * - `attempts`: how many there were;
 * - `segments` of one turn: a cut generation has one for each attempt. Turn, replica and tokens stay.
 */
function comparableRow({ timing, attempts, segments, ...row }: Row): string {
  assert.ok(Number.isFinite(timing.wall_s) && attempts >= 1, `${row.rollout_id} has no timing`);
  return JSON.stringify({ ...row, segments: joined(segments) });
}

function joined(segments: Row['segments']): object[] {
  const turns: { turn: number; replica: string; start: number; end: number }[] = [];
  for (const { turn, replica, start, end } of segments) {
    const last = turns.at(-1);
    if (last?.turn === turn && last.replica === replica && last.end === start) last.end = end;
    else turns.push({ turn, replica, start, end });
  }
  return turns;
}

const keyOf = ({ row, repeat }: Pick<Row, 'row' | 'repeat'>): string => `${row}-${repeat}`;

/** The rollouts of a batch, in input order. */
function keysOf({ samples, repeats }: { samples: number; repeats: number }): string[] {
  return Array.from({ length: samples * repeats }, (_, i) =>
    keyOf({ row: Math.floor(i / repeats), repeat: i % repeats }),
  );
}

/** Every rollout is valid, once, in input order; the counts agree. */
export function assertComplete(
  { result, failure, rollouts, failures }: BatchOutcome,
  size: { samples: number; repeats: number },
): void {
  const keys = keysOf(size);
  assert.deepEqual(failure, null);
  assert.deepEqual(failures.map(describeRow), []);
  assert.deepEqual(rollouts.map(keyOf), keys);
  assert.deepEqual(result?.counts, {
    requested: keys.length,
    completed: keys.length,
    failed: 0,
    timed_out: 0,
    stopped: 0,
    cancelled: 0,
  });
}

/** Each rollout is in one of the two files, once, and each file is in input order. */
export function assertEachOnce(
  { rollouts, failures }: Pick<BatchOutcome, 'rollouts' | 'failures'>,
  size: { samples: number; repeats: number },
): void {
  const keys = keysOf(size);
  const place = (row: Row): number => keys.indexOf(keyOf(row));
  const both = [...rollouts, ...failures].toSorted((a, b) => place(a) - place(b));
  assert.deepEqual(both.map(keyOf), keys);
  for (const file of [rollouts, failures]) {
    const places = file.map(place);
    assert.deepEqual(
      places,
      places.toSorted((a, b) => a - b),
    );
  }
}

/** Row by row, by place; the first difference is shown with its context. */
export function assertSameRows(actual: readonly Row[], expected: readonly Row[]): void {
  const wanted = new Map(expected.map((row) => [keyOf(row), row]));
  for (const row of actual) {
    const other = wanted.get(keyOf(row));
    assert.ok(other !== undefined, `${row.rollout_id} is not in the undisturbed run`);
    const [ours, theirs] = [comparableRow(row), comparableRow(other)];
    if (ours === theirs) continue;
    let at = 0;
    while (ours[at] === theirs[at]) at += 1;
    const around = (text: string): string => text.slice(Math.max(0, at - 200), at + 200);
    assert.fail(
      `${row.rollout_id} differs at character ${at}\n  got      …${around(ours)}…\n  expected …${around(theirs)}…`,
    );
  }
}

/** Rows, and the metrics that they determine: all except times and the costs of retries. */
export function assertSameOutcome(actual: BatchOutcome, expected: BatchOutcome): void {
  assertSameRows(actual.rollouts, expected.rollouts);
  assert.deepEqual(comparableMetrics(actual), comparableMetrics(expected));
}

function comparableMetrics({ result }: BatchOutcome): Record<string, number> {
  const ofRetries = /_s(\/|$)|^(attempts|faults)\/|^(inherited|wasted)_tokens$/;
  return Object.fromEntries(
    Object.entries(result!.metrics).filter(([name]) => !ofRetries.test(name)),
  );
}

const describeRow = ({ rollout_id, stop_reason, failure }: Row): string =>
  `${rollout_id}: ${stop_reason}, ${failure?.type ?? ''} ${failure?.message ?? ''}`;
