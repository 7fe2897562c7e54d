/** What of a rollout depends on its sample and its stream: seeds by epoch, and whether a token of it trains. */
import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { StreamRequest } from '../../src/model/stream/stream-request.js';
import type { Bench, Parts } from '../fakes/activity-bench.js';
import { activityBench } from '../fakes/activity-bench.js';
import { scriptedEnvironment } from '../fakes/scripted-environment.js';
import type { ScriptedReply } from '../fakes/scripted-service.js';
import { says, scriptedService } from '../fakes/scripted-service.js';
import { BATCH, REF, requestOf, sampleOf } from '../fakes/temporary-store.js';

type TestOf = Parameters<typeof activityBench>[0];

describe('a rollout of a stream', () => {
  /** The seed of the first request of a group's first member. */
  async function seedOfGroup(
    t: TestOf,
    { group, ...request }: { group: number; num_repeats_add_seed?: boolean },
  ): Promise<number | null | undefined> {
    const service = scriptedService([says('x')]);
    const environment = scriptedEnvironment([{ terminated: true }]);
    const bench = await activityBench(t, { plays_on: true, service, environment });
    const stream = StreamRequest.parse({
      samples: { path: 's.jsonl' },
      groups_per_step: 1,
      num_repeats: 4,
      generation: { model: 'policy' },
      ...request,
    });
    const samples = ['a', 'b', 'c'].map((content) => sampleOf(content));
    await bench.store.createBatch({ batch_id: BATCH, request: stream, samples });
    await bench.result('openRollout', { ...REF, row: group, repeat: 2 });
    return service.requests[0]?.seed;
  }

  test('has seeds from its repeat in the first epoch, and others in each that follows', async (t) => {
    const seeds = [];
    for (const group of [0, 2, 3, 5, 6])
      seeds.push(await seedOfGroup(t, { group, num_repeats_add_seed: true }));
    assert.deepEqual(seeds.slice(0, 2), [2, 2]);
    assert.equal(seeds[2], seeds[3], 'of one epoch');
    assert.equal(new Set(seeds).size, 3);
    assert.equal(await seedOfGroup(t, { group: 3 }), null);
  });
});

/** A batch of one rollout. */
async function planned(
  t: TestOf,
  {
    parts = {},
    request = {},
    sample = sampleOf('go'),
  }: { parts?: Parts; request?: Record<string, unknown>; sample?: string },
): Promise<Bench> {
  const bench = await activityBench(t, parts);
  const generation = { model: 'policy' };
  await bench.store.createBatch({
    batch_id: BATCH,
    request: requestOf({ ...request, generation }),
    samples: [sample],
  });
  return bench;
}

describe('a rollout of which no token trains says so in its result', () => {
  const played = async (
    t: TestOf,
    {
      said = says('x'),
      ...given
    }: { said?: ScriptedReply; request?: Record<string, unknown>; sample?: string },
  ): Promise<unknown[]> => {
    const service = scriptedService([said]);
    const environment = scriptedEnvironment([{ terminated: true }]);
    const bench = await planned(t, { parts: { plays_on: true, service, environment }, ...given });
    const { progress } = await bench.result('openRollout', REF);
    const { result } = await bench.result('finishRollout', {
      rollout: REF,
      stop_reason: 'stopped',
      failure: null,
    });
    assert.equal(result.untrained, progress.untrained);
    return [progress.ended, progress.untrained];
  };
  const cut = says('x', { finish_reason: 'length' });

  test('because it was truncated, and the request masks that', async (t) => {
    assert.deepEqual(await played(t, { said: cut, request: { overlong: 'mask' } }), [
      'terminated',
      true,
    ]);
    assert.deepEqual(await played(t, { said: cut }), ['terminated', undefined]);
    assert.deepEqual(await played(t, { request: { overlong: 'mask' } }), ['terminated', undefined]);
  });

  test('because its sample has loss_multiplier 0', async (t) => {
    const of = (loss_multiplier: number) => ({ sample: sampleOf('go', { loss_multiplier }) });
    assert.deepEqual(await played(t, of(0)), ['terminated', true]);
    assert.deepEqual(await played(t, of(0.5)), ['terminated', undefined]);
  });

  test('because nothing was sampled', async (t) => {
    const bench = await planned(t, { request: { max_rollout_turns: 0 } });
    const { progress } = await bench.result('openRollout', REF);
    assert.deepEqual([progress.ended, progress.untrained], ['max_turns', true]);
  });

  test('but not if it failed', async (t) => {
    const bench = await planned(t, { sample: sampleOf('go', { loss_multiplier: 0 }) });
    await bench.result('openRollout', REF);
    const { result } = await bench.result('finishRollout', {
      rollout: REF,
      stop_reason: 'failed',
      failure: null,
    });
    assert.deepEqual([result.stop_reason, result.untrained], ['failed', undefined]);
  });
});
