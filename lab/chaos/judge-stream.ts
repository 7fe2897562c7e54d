import assert from 'node:assert/strict';
import type { StepResult } from '../../src/activities/contract/stream.js';
import { describeError } from '../../src/platform/errors.js';
import type { RecomputedLag } from '../bed/recomputed-lag.js';
import type { StreamToTest } from '../bed/stream.js';
import type { Played } from './played.js';

/** A step as it was delivered, and the hash of its bytes then. */
export interface DeliveredStep {
  result: StepResult;
  hash: string;
}

export interface JudgedStream extends Omit<Played, 'name' | 'labels'> {
  /** Of all its tokens. */
  lag: Omit<RecomputedLag, 'lags'>;
}

/** All that a stream has delivered, from its files alone. */
export async function judgeStream(
  stream: StreamToTest,
  {
    steps,
    groups_per_step,
    num_repeats,
  }: { steps: readonly DeliveredStep[]; groups_per_step: number; num_repeats: number },
): Promise<JudgedStream> {
  const ids: string[] = [];
  const groups: number[] = [];
  const problems: string[] = [];
  const lag = { unknown: 0, over: 0, masked: 0 };
  let [failures, steps_changed] = [0, 0];
  for (const [step, { result, hash }] of steps.entries()) {
    const of = await stream.fact(step);
    groups.push(...of.groups);
    if (of.groups.length !== groups_per_step)
      problems.push(`step ${step} has ${of.groups.length} groups, expected ${groups_per_step}`);
    failures += (await stream.failures(step)).length;
    if ((await stream.hash(step)) !== hash) steps_changed += 1;
    for (const { rollout_id, row } of await stream.rows(step)) {
      ids.push(rollout_id);
      if (!of.groups.includes(row)) problems.push(`step ${step} has a row of group ${row}`);
    }
    try {
      const found = await stream.lag(result);
      assert.ok(found !== null, `step ${step} has no version`);
      for (const name of ['unknown', 'over', 'masked'] as const) lag[name] += found[name];
    } catch (error) {
      problems.push(`step ${step}: ${describeError(error)}`);
    }
  }
  if (new Set(groups).size !== groups.length) problems.push('a group was delivered twice');
  return {
    rows_expected: steps.length * groups_per_step * num_repeats,
    rows: new Set(ids).size,
    rows_duplicated: ids.length - new Set(ids).size,
    failures,
    ...{ steps: steps.length, steps_changed },
    problems,
    lag,
  };
}
