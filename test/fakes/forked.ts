import assert from 'node:assert/strict';
import type { TestContext } from 'node:test';
import type { Trajectory } from '../../src/model/journal/trajectory.js';
import type { Bench, Parts } from './activity-bench.js';
import { activityBench } from './activity-bench.js';
import { scriptedEnvironment } from './scripted-environment.js';
import { says, scriptedService } from './scripted-service.js';
import { BATCH, REF, requestOf, sampleOf } from './temporary-store.js';

/** A rollout that has ended, and forks of it. */

export const FORK = { batch_id: 'fork', row: 0, repeat: 0 };
export const ROLLOUT = `${BATCH}/0-0`;

/** A rollout of two turns that has ended, `a b` and `c d`. */
export async function played(
  t: TestContext,
  { says: more = [], steps = [], request = {}, ...parts }: Parts & Later = {},
): Promise<Bench> {
  const bench = await activityBench(t, {
    plays_on: true,
    service: scriptedService([says('a b'), says('c d'), ...more], {
      weightVersion: () => parts.weights?.at(0) ?? null,
    }),
    environment: scriptedEnvironment([
      { content: 'one', reward: 1, metadata: { at: 1 } },
      { content: 'two', reward: 2, metadata: { at: 2 } },
      ...steps,
    ]),
    ...parts,
  });
  await bench.store.createBatch({
    batch_id: BATCH,
    request: requestOf({
      max_rollout_turns: 2,
      num_repeats: 4,
      min_valid: 4,
      ...request,
      generation: { model: 'policy', ...(request['generation'] ?? {}) },
    }),
    samples: [sampleOf('first'), sampleOf('go', { extra_env_info: { at: 0 } })],
  });
  await bench.result('openRollout', { ...REF, row: 1 });
  return bench;
}

/** `id`: of the batch; the rest is its request. */
interface Input extends Record<string, unknown> {
  id?: string;
}

export interface Later {
  /** What the fork's engine and environment say. */
  says?: ReturnType<typeof says>[];
  steps?: Parameters<typeof scriptedEnvironment>[0];
  request?: Record<string, unknown>;
  weights?: (string | null)[];
}

export const at = (place: string, more: object = {}) => ({
  fork: { rollout_id: `${BATCH}/1-0`, at: place, ...more },
});

export const plans = (bench: Bench, { id = 'fork', ...input }: Input) =>
  bench.run('planBatch', { input, workflow_id: id });
export const opens = (bench: Bench, ref = FORK) =>
  bench.run('openRollout', { input: ref, workflow_id: `${ref.batch_id}/0-${ref.repeat}` });
export const read = (bench: Bench, ref = FORK): Promise<Trajectory> =>
  bench.elsewhere().readTrajectory(ref);

export async function forked(bench: Bench, input: Input): Promise<Trajectory> {
  const { error } = await plans(bench, input);
  if (error !== undefined) throw error as Error;
  const ref = { ...FORK, batch_id: input.id ?? 'fork' };
  const opened = await opens(bench, ref);
  if (opened.error !== undefined) throw opened.error as Error;
  return await read(bench, ref);
}

export async function refusal(bench: Bench, input: Input): Promise<string> {
  const { error } = await plans(bench, input);
  const { type, message } = (error ?? {}) as { type?: string; message?: string };
  assert.equal(type, 'InvalidBatchRequest');
  return message ?? '';
}
