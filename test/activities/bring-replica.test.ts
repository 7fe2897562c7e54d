import assert from 'node:assert/strict';
import { mkdir, rmdir } from 'node:fs/promises';
import { describe, test, type TestContext } from 'node:test';
import { Publish } from '../../src/model/policy/orders.js';
import type { Change, PolicyRecord } from '../../src/model/policy/record.js';
import { withoutReplica } from '../../src/model/policy/replicas.js';
import { concluded, withTarget } from '../../src/model/policy/target.js';
import type { ControlCall } from '../fakes/controlled-engine.js';
import { controlFault, PROBE } from '../fakes/controlled-engine.js';
import { ORDER, updating } from '../fakes/updated-replica.js';
import { factOf } from '../../src/trajectories/places.js';
import { hostAhead } from '../fakes/other-host.js';

const STEPS = ['load', 'label', 'resetCache', 'resume', 'promptLogprobs'] as const;

describe('a replica that is updated', () => {
  test('goes through every phase, recorded before the first of them and behind the last', async (t) => {
    const { engine, bench, entry } = await updating(t);
    const states: string[] = [];
    engine.before = async () => {
      states.push((await entry()).state);
    };
    const { paused_s } = await bench.result('bringReplica', ORDER);
    assert.deepEqual(engine.calls, ['pause keep reset', 'label in transit', ...STEPS]);
    assert.deepEqual(new Set(states), new Set(['updating']));
    assert.deepEqual([engine.weights(), engine.label_now()], ['/weights-1', '1']);
    const { state, version, paused_until, fault } = await entry();
    assert.deepEqual([state, version, paused_until, fault], ['current', 1, null, null]);
    assert.ok(paused_s >= 0);
  });

  test('keeps its cache where the update says so', async (t) => {
    const { engine, bench } = await updating(t, { cache: 'keep' });
    await bench.result('bringReplica', { ...ORDER, mode: 'abort' });
    assert.deepEqual(engine.calls, [
      'pause abort keep',
      'label in transit',
      'load',
      'label',
      'resume',
      'promptLogprobs',
    ]);
  });

  test('may not be paused longer than pause_limit, which every reader sees before it is paused', async (t) => {
    const { engine, bench, entry } = await updating(t, { pause_limit: '5m' });
    const seen: number[] = [];
    engine.before = async (call) => {
      if (call === 'pause') seen.push((await entry()).paused_until ?? 0);
    };
    const began = Date.now();
    await bench.result('bringReplica', ORDER);
    assert.ok(seen[0]! >= began + 300_000 && seen[0]! <= Date.now() + 300_000);
  });

  for (const call of STEPS.filter((step) => step !== 'load')) {
    test(`is cut off, resumed and unknown where ${call} is refused for good`, async (t) => {
      const { engine, bench, entry } = await updating(t);
      engine.before = (now, times) => {
        if (now === call && times === 1) throw controlFault('GenerationRejected', 400);
      };
      const { type, nonRetryable, message } = await bench.failure('bringReplica', ORDER);
      assert.deepEqual([type, nonRetryable], ['PolicyUpdateFailed', true]);
      assert.match(message, /http:\/\/a\/v1: \w+: the engine says 400/);
      assert.deepEqual(engine.calls.slice(-2), ['cutOff', 'resume']);
      assert.equal(engine.isPaused(), false);
      const { state, paused_until, fault } = await entry();
      assert.deepEqual([state, paused_until], ['unknown', null]);
      assert.match(fault ?? '', /the engine says 400/);
    });
  }

  test('is unknown where its probe differs: a load that did nothing ends here', async (t) => {
    const probe = { ...PROBE, logprobs: [-1, -2.5] };
    const { engine, bench, entry } = await updating(t, { probe });
    const { message } = await bench.failure('bringReplica', ORDER);
    assert.match(message, /probe: token 2: expected logprob -2\.5 ± 0\.01, got -2: these are not/);
    assert.equal((await entry()).state, 'unknown');
    assert.equal(engine.isPaused(), false);
  });

  test('is away where it does not answer any more', async (t) => {
    const { engine, bench, entry } = await updating(t);
    engine.before = (call) => {
      if (call !== 'pause') throw controlFault('GenerationUnavailable');
    };
    const checkpoint = { paused_until: Date.now() + 60_000, failures: 2 };
    const heartbeatDetails = { waiting: false, checkpoint };
    await bench.run('bringReplica', { input: ORDER, heartbeatDetails });
    assert.equal((await entry()).state, 'away');
  });
});

describe('an update that an engine fails for a moment', () => {
  test('begins anew within the same pause, and loads whole again', async (t) => {
    const { engine, bench, entry } = await updating(t);
    engine.before = (call, times) => {
      if (call === 'label' && times === 2) throw controlFault('GenerationUnavailable');
    };
    const first = await bench.run('bringReplica', { input: ORDER });
    assert.equal((first.error as { type: string }).type, 'GenerationUnavailable');
    const { paused_until, state } = await entry();
    assert.equal(state, 'updating');
    // What the attempt left in its last heartbeat.
    const heartbeatDetails = { waiting: false, checkpoint: { paused_until, failures: 1 } };
    const seen: unknown[] = [];
    engine.before = async () => {
      seen.push((await entry()).paused_until);
    };
    await bench.run('bringReplica', { input: ORDER, heartbeatDetails });
    assert.equal(engine.calls.filter((call) => call === 'load').length, 2);
    assert.deepEqual(new Set(seen), new Set([paused_until]));
    assert.equal((await entry()).state, 'current');
  });

  test('is over at the third failure', async (t) => {
    const { engine, bench, entry } = await updating(t);
    engine.before = (call) => {
      if (call === 'load') throw controlFault('GenerationUnavailable', 500);
    };
    const checkpoint = { paused_until: Date.now() + 60_000, failures: 2 };
    const heartbeatDetails = { waiting: false, checkpoint };
    const { error } = await bench.run('bringReplica', { input: ORDER, heartbeatDetails });
    assert.equal((error as { type: string }).type, 'PolicyUpdateFailed');
    assert.equal((await entry()).state, 'unknown');
    assert.equal(engine.isPaused(), true);
  });

  test('is over at the end of its pause', async (t) => {
    const { engine, bench, entry } = await updating(t);
    const heartbeatDetails = { checkpoint: { paused_until: Date.now() - 1, failures: 0 } };
    const { error } = await bench.run('bringReplica', { input: ORDER, heartbeatDetails });
    assert.match(String(error), /pause_limit is over/);
    assert.deepEqual(engine.calls, ['cutOff', 'resume']);
    assert.equal((await entry()).state, 'unknown');
  });
});

test('an engine that does not resume at once is asked again: the first update has no version to restore', async (t) => {
  const { engine, bench, entry } = await updating(t);
  engine.before = (call, times) => {
    if (call === 'resetCache') throw controlFault('GenerationRejected', 400);
    if (call === 'resume' && times === 1) throw controlFault('GenerationUnavailable');
  };
  await bench.failure('bringReplica', ORDER);
  assert.deepEqual(engine.calls.slice(4), ['resetCache', 'cutOff', 'resume', 'resume']);
  assert.equal(engine.isPaused(), false);
  assert.equal((await entry()).state, 'unknown');
});

describe('while the record cannot be read', () => {
  /** An engine that an earlier attempt has paused until then. Reading the record fails until the store is back. */
  async function left(t: TestContext, { paused_until }: { paused_until: number }) {
    const world = await updating(t);
    const { engine, bench, set } = world;
    const record = await set({ state: 'updating', paused_until });
    await engine.pause({ mode: 'keep', cache: 'keep' }, { within_ms: 1, signal: t.signal });
    const series = ['_policy', 'default'] as const;
    const unreadable = factOf(bench.root, { series, n: record!.epoch + 1 });
    await mkdir(unreadable);
    const back = () => rmdir(unreadable);
    const attempt = async (checkpoint: unknown): Promise<unknown> => {
      const heartbeatDetails = { waiting: false, checkpoint };
      const { error, heartbeats } = await bench.run('bringReplica', {
        input: ORDER,
        heartbeatDetails,
      });
      assert.equal((error as { type?: string } | undefined)?.type, 'StoreFault');
      return (heartbeats.at(-1) as { checkpoint: unknown }).checkpoint;
    };
    return { ...world, back, attempt };
  }

  test('an engine is resumed at the limit of its pause, once, and updated when the store is back', async (t) => {
    const paused_until = Date.now() - 1;
    const { engine, bench, entry, back, attempt } = await left(t, { paused_until });
    const checkpoint = await attempt({ paused_until, failures: 1 });
    assert.deepEqual(engine.calls.slice(1), ['cutOff', 'resume']);
    assert.equal(engine.isPaused(), false);
    assert.equal(await attempt(checkpoint), null);
    assert.equal(engine.calls.length, 3);
    await back();
    await bench.result('bringReplica', ORDER);
    assert.equal((await entry()).state, 'current');
  });

  test('an engine that does not answer is asked again by the next attempt', async (t) => {
    const paused_until = Date.now() - 1;
    const { engine, attempt } = await left(t, { paused_until });
    engine.before = (call, times) => {
      if (call === 'cutOff' && times === 1) throw controlFault('GenerationUnavailable');
    };
    const checkpoint = await attempt({ paused_until, failures: 0 });
    assert.equal(engine.isPaused(), true);
    await attempt(checkpoint);
    assert.equal(engine.isPaused(), false);
  });

  test('a pause that is not over continues', async (t) => {
    const paused_until = Date.now() + 60_000;
    const { engine, attempt } = await left(t, { paused_until });
    assert.deepEqual(await attempt({ paused_until, failures: 0 }), { paused_until, failures: 0 });
    assert.equal(engine.calls.length, 1);
  });
});

describe('streams that are drained', () => {
  const DRAIN = { ...ORDER, mode: 'wait' as const, drain_limit: '200ms' };

  test('are waited for', async (t) => {
    const { engine, bench } = await updating(t);
    await bench.result('bringReplica', DRAIN);
    assert.equal(engine.calls[0], 'pause wait reset');
    assert.deepEqual(engine.calls.slice(1, 3), ['label in transit', 'load']);
  });

  test('are cut off behind drain_limit', async (t) => {
    const { engine, bench } = await updating(t);
    const bounds: number[] = [];
    const pause = engine.pause.bind(engine);
    engine.pause = (how, bound) => {
      bounds.push(bound.within_ms);
      return pause(how, bound);
    };
    engine.before = (call, times) => {
      if (call === 'pause' && times === 1) throw controlFault('GenerationUnavailable');
    };
    await bench.result('bringReplica', DRAIN);
    assert.deepEqual(engine.calls.slice(0, 4), [
      'pause wait reset',
      'pause abort reset',
      'label in transit',
      'load',
    ]);
    assert.ok(bounds[0]! <= 200 && bounds[1]! > 200, String(bounds));
  });

  test('are not cut off because the engine refuses', async (t) => {
    const { engine, bench } = await updating(t);
    engine.before = (call, times) => {
      if (call === 'pause' && times === 1) throw controlFault('GenerationRejected', 400);
    };
    await bench.failure('bringReplica', DRAIN);
    assert.ok(!engine.calls.includes('pause abort reset'));
  });
});

describe('the taker of a replica', () => {
  test('ends a pause that was left behind before it begins its own', async (t) => {
    const { engine, bench, set } = await updating(t);
    await set({ state: 'updating', paused_until: Date.now() - 1000 });
    await bench.result('bringReplica', ORDER);
    assert.deepEqual(engine.calls.slice(0, 3), ['cutOff', 'resume', 'pause keep reset']);
  });

  test('is held to a pause that is not over yet', async (t) => {
    const { engine, bench, entry, set } = await updating(t);
    const paused_until = Date.now() + 30_000;
    await set({ state: 'updating', paused_until });
    const seen: unknown[] = [];
    engine.before = async () => {
      seen.push((await entry()).paused_until);
    };
    await bench.result('bringReplica', ORDER);
    assert.deepEqual(new Set(seen), new Set([paused_until]));
    assert.ok(!engine.calls.includes('cutOff'));
  });

  for (const ahead of [3_600_000, -3_600_000])
    test(`on a host whose clock is ${ahead / 1000} s ahead ${ahead > 0 ? 'leaves a pause that is not over' : 'ends one that is over'}`, async (t) => {
      const { engine, bench, set } = await updating(t);
      hostAhead(t, ahead);
      await set({ state: 'updating', paused_until: Date.now() + (ahead > 0 ? 30_000 : -1000) });
      await bench.result('bringReplica', ORDER);
      assert.equal(engine.calls.includes('cutOff'), ahead < 0);
    });

  test('leaves a zombie nothing to touch', async (t) => {
    const { engine, bench, entry, set } = await updating(t);
    engine.before = async (call) => {
      if (call === 'load') await set({ state: 'updating', paused_until: Date.now() + 60_000 });
    };
    const { error } = await bench.run('bringReplica', { input: ORDER });
    assert.equal((error as { type: string }).type, 'StoreFault');
    assert.deepEqual(engine.calls, ['pause keep reset', 'label in transit', 'load']);
    assert.equal((await entry()).state, 'updating');
  });
});

test('a version that has been overtaken touches nothing', async (t) => {
  const { engine, bench, records } = await updating(t);
  const next = Publish.parse({ version: 2, weights: { kind: 'checkpoint', path: '/weights-2' } });
  const overtake: Change = (now: PolicyRecord | null) => withTarget(now!, next);
  await records.change(overtake);
  const { message } = await bench.failure('bringReplica', ORDER);
  assert.match(message, /version 1 has been overtaken by 2/);
  assert.deepEqual(engine.calls, []);
});

test('a replica that is to be restored is only asked while it is away', async (t) => {
  const { engine, bench, set } = await updating(t);
  await set({ state: 'away', fault: 'gone' });
  engine.before = (call: ControlCall) => {
    if (call === 'examine') throw controlFault('GenerationUnavailable');
  };
  const { error } = await bench.run('bringReplica', { input: { ...ORDER, version: null } });
  assert.equal((error as { type: string }).type, 'GenerationUnavailable');
  assert.deepEqual(engine.calls, ['examine']);
});

for (const owner of ['grpo', null])
  test(`a replica that leaves while it is examined stays gone, and nothing is paused or loaded (${owner === null ? 'of temporal.yaml' : 'it had joined'})`, async (t) => {
    const { engine, bench, records, set } = await updating(t);
    await set({ state: 'away', fault: 'gone', owner });
    const restore = { ...ORDER, version: null };
    await records.change((now) => concluded(now!));
    let gone: PolicyRecord | null = null;
    engine.before = async (call: ControlCall) => {
      if (call !== 'examine') return;
      const at = Date.now();
      gone = await records.change((now) => withoutReplica(now!, { url: engine.replica, at }));
    };
    const { type, message } = await bench.failure('bringReplica', restore);
    assert.deepEqual([type, message], ['PolicyUpdateFailed', `${engine.replica} has left`]);
    assert.deepEqual(engine.calls, ['examine', 'asOne']);
    assert.deepEqual(await records.latest(), gone);
  });

for (const is_half of [false, true])
  test(`a pause of an engine that has left since ${is_half ? 'stays where its weights are half loaded' : 'ends'}`, async (t) => {
    const { engine, bench, records } = await updating(t);
    await engine.pause({ mode: 'keep', cache: 'keep' }, { within_ms: 1, signal: t.signal });
    await records.change((now) => withoutReplica(now!, { url: engine.replica, at: Date.now() }));
    const checkpoint = { paused_until: Date.now() + 60_000, failures: 0, is_half };
    const heartbeatDetails = { waiting: false, checkpoint };
    await bench.run('bringReplica', { input: ORDER, heartbeatDetails });
    assert.equal(engine.isPaused(), is_half);
  });
