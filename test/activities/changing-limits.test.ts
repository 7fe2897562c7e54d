/** Limits that change while an attempt plays. */
import assert from 'node:assert/strict';
import { setTimeout as sleep } from 'node:timers/promises';
import { describe, test } from 'node:test';
import type { TestContext } from 'node:test';
import type { LimitsChange } from '../../src/model/workflow-safe/limits.js';
import { changesOf } from '../../src/activities/limits/limit-facts.js';
import type { Bench } from '../fakes/activity-bench.js';
import { AT, activityBench } from '../fakes/activity-bench.js';
import { SETTINGS } from '../fakes/journal-lines.js';
import { scriptedEnvironment } from '../fakes/scripted-environment.js';
import { deltaOf, idsOf, says, scriptedService } from '../fakes/scripted-service.js';
import { BATCH, REF, sampleOf } from '../fakes/temporary-store.js';
import { turnsOf } from '../../src/model/journal/calls.js';

const PAUSE_MS = 10;

/** An engine of slow tokens, up to `max_tokens`, or until it is left. */
function slowEngine() {
  const service = scriptedService([]);
  const left = { requests: 0 };
  service.generate = async (request, { signal, onDelta }) => {
    service.requests.push(structuredClone(request));
    for (let n = 1; n <= request.max_tokens; n++) {
      await sleep(PAUSE_MS);
      if (signal.aborted) left.requests += 1;
      signal.throwIfAborted();
      const finish = { finish_reason: 'length', stop_reason: null } as const;
      onDelta({ ...deltaOf('x'), ...(n === request.max_tokens && { finish }) });
    }
    return { finish_reason: 'length', stop_reason: null, queue_s: 0, generate_s: 0 };
  };
  return { service, left };
}

const ENDS = { terminated: true };

async function playing(
  t: TestContext,
  { limits, settings = {} }: { limits: LimitsChange; settings?: object },
): Promise<{ bench: Bench; left: { requests: number } }> {
  const { service, left } = slowEngine();
  const environment = scriptedEnvironment([ENDS]);
  const bench = await activityBench(t, { service, environment });
  await bench.started({ settings });
  const running = bench.result('playTurns', AT);
  await sleep(100);
  assert.equal(await bench.result('setLimits', { batch_id: BATCH, limits }), null);
  assert.equal((await running).ended, 'terminated');
  return { bench, left };
}

describe('limits that change while an answer streams', () => {
  test('end it at a smaller room as length, with the tokens so far; the journal has them as a claim of its owner', async (t) => {
    const { bench, left } = await playing(t, {
      limits: { max_new_tokens: 200 },
      settings: { max_seq_len: 5000 },
    });
    const read = await bench.elsewhere().readTrajectory(REF);
    const [turn] = turnsOf(read);
    assert.deepEqual([turn?.token_ids.length, turn?.generation.finish_reason], [200, 'length']);
    assert.equal(turn?.generation.content, 'x'.repeat(200));
    assert.equal(left.requests, 1);
    assert.deepEqual([read.attempts, read.inherited_tokens, read.wasted_tokens], [1, 0, 0]);
    assert.deepEqual(read.limits, { max_new_tokens: 200 });
    const claims = (await bench.journalLines()).filter(({ kind }) => kind === 'claim');
    assert.equal(claims.at(-1)?.writer, claims.at(-2)?.writer);
  });

  test('let it go on in a larger room, from its last token', async (t) => {
    const { generation } = SETTINGS;
    const { bench, left } = await playing(t, {
      limits: { max_new_tokens: 170 },
      settings: { generation: { ...generation, max_new_tokens: 150 } },
    });
    const [first, second] = bench.service.requests;
    assert.deepEqual([first?.max_tokens, second?.max_tokens], [150, 20]);
    assert.deepEqual(second?.prompt_ids, [...first!.prompt_ids, ...idsOf('x'.repeat(150))]);
    const [turn] = turnsOf(await bench.elsewhere().readTrajectory(REF));
    assert.deepEqual([turn?.token_ids.length, turn?.generation.finish_reason], [170, 'length']);
    assert.equal(left.requests, 0);
  });

  test('count for the next turn of the same attempt', async (t) => {
    const slow = async (bench: Bench): Promise<void> => {
      await bench.result('setLimits', { batch_id: BATCH, limits: { max_rollout_turns: 1 } });
      await sleep(1000);
    };
    const environment = scriptedEnvironment([{}]);
    const bench: Bench = await activityBench(t, {
      service: scriptedService([says('one')]),
      environment: {
        ...environment,
        step: async (...given: Parameters<typeof environment.step>) => {
          await slow(bench);
          return await environment.step(...given);
        },
      },
    });
    await bench.started();
    assert.equal((await bench.result('playTurns', AT)).ended, 'max_turns');
    bench.checkPlayed();
  });
});

describe('rollout_timeout that changes while a rollout is opened and played', () => {
  const open = async (
    t: TestContext,
    { rollout_timeout, then }: { rollout_timeout: string; then: string },
  ) => {
    const { service } = slowEngine();
    const bench = await activityBench(t, { service, plays_on: true });
    await bench.started();
    const began = performance.now();
    const running = bench.run('openRollout', { input: REF, limits: { rollout_timeout } });
    await sleep(50);
    await bench.result('setLimits', { rollout: REF, limits: { rollout_timeout: then } });
    const { error } = await running;
    return { error: String(error), took_ms: performance.now() - began };
  };

  test('ends it at a shorter one', async (t) => {
    const { error } = await open(t, { rollout_timeout: '1h', then: '300ms' });
    assert.match(error, /rollout_timeout 300ms passed/);
  });

  test('ends it at a longer one, not at the one with which it was opened', async (t) => {
    const { error, took_ms } = await open(t, { rollout_timeout: '2s', then: '3s' });
    assert.match(error, /rollout_timeout 3s passed/);
    assert.ok(took_ms >= 2950, `${took_ms} ms`);
  });
});

describe('a change of one rollout', () => {
  test('is answered with all limits in force, also before it has a journal, and concerns no other', async (t) => {
    const bench = await activityBench(t);
    await bench.started();
    await bench.result('setLimits', { batch_id: BATCH, limits: { max_seq_len: 77 } });
    const limits = { rollout_timeout: '2m' };
    assert.deepEqual(await bench.result('setLimits', { rollout: REF, limits }), {
      max_rollout_turns: 100,
      max_new_tokens: 512,
      max_seq_len: 77,
      rollout_timeout: '2m',
    });
    const { facts } = bench.dependencies.store;
    const changes = await changesOf(BATCH, facts);
    assert.deepEqual(changes.of(REF), { max_seq_len: 77, rollout_timeout: '2m' });
    assert.deepEqual(changes.of({ ...REF, repeat: 1 }), { max_seq_len: 77 });
  });

  test('gives way to a later change of the whole batch', async (t) => {
    const bench = await activityBench(t);
    await bench.started();
    await bench.result('setLimits', { rollout: REF, limits: { max_rollout_turns: 5 } });
    await bench.result('setLimits', { batch_id: BATCH, limits: { max_rollout_turns: 9 } });
    const changes = await changesOf(BATCH, bench.dependencies.store.facts);
    assert.deepEqual(changes.of(REF), { max_rollout_turns: 9 });
  });
});

describe('a batch that is started again', () => {
  const sample = JSON.parse(sampleOf('go')) as unknown;
  const input = { samples: [sample] };
  const changes = async (bench: Bench): Promise<LimitsChange> =>
    (await changesOf(BATCH, bench.dependencies.store.facts)).of(REF);

  test('has the limits of its request, and another attempt of the same run changes nothing', async (t) => {
    const bench = await activityBench(t);
    const plan = (run_id: string) => bench.run('planBatch', { input, workflow_id: BATCH, run_id });
    const change = (run_id: string) =>
      bench.run('setLimits', {
        input: { batch_id: BATCH, limits: { max_rollout_turns: 3 } },
        run_id,
      });
    assert.equal((await plan('a')).error, undefined);
    await change('a');
    await plan('a');
    assert.deepEqual(await changes(bench), { max_rollout_turns: 3 });
    await plan('b');
    assert.deepEqual(await changes(bench), {});
    await change('b');
    assert.deepEqual(await changes(bench), { max_rollout_turns: 3 });
  });
});
