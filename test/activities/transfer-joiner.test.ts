/** Engines of a trainer's own job: they join when it starts, and nothing but its transfer gives them weights. */
import assert from 'node:assert/strict';
import { describe, test, type TestContext } from 'node:test';
import type { PolicyOrder } from '../../src/activities/contract/policy.js';
import { fieldsOf, firstRecord } from '../../src/model/policy/record.js';
import { withJoined, withoutReplica } from '../../src/model/policy/replicas.js';
import { concluded, withTarget } from '../../src/model/policy/target.js';
import { activityBench } from '../fakes/activity-bench.js';
import { controlledEngine } from '../fakes/controlled-engine.js';

const A = 'http://a/v1';
const B = 'http://b/v1';
const BEGIN = { holder: { name: 'grpo', incarnation: 'two' }, probe: null, code: 'trainer' };

/** Two that have joined. Version 17 was sent to others, which have left: there are no files of it. */
async function joiners(t: TestContext, { isFirst = false, urls = [A, B] } = {}) {
  const engines = [controlledEngine(A), controlledEngine(B)] as const;
  const bench = await activityBench(t, { controls: [...engines], urls });
  const { records } = bench.dependencies.policy('default')!;
  const sent = {
    version: 17,
    weights: { kind: 'transfer' as const },
    cache: 'keep' as const,
    probe: null,
    pause_limit: '10m',
  };
  const first = isFirst ? firstRecord([]) : concluded(withTarget(firstRecord([]), sent));
  const identity = isFirst ? null : engines[0].identity;
  await records.change(() =>
    [A, B].reduce((next, url) => withJoined(next, { replica: url, owner: 'grpo' }), {
      ...first,
      identity,
    }),
  );
  const entry = async (url: string) => fieldsOf((await records.latest())!.replicas[url]!);
  const order = (name: PolicyOrder['name'], input: object) =>
    bench.result('takeOrder', { service: 'default', name, nonce: 'n', input });
  const begin = async () => (await order('begin', BEGIN)).begun!;
  const finish = async (sent = [0, 1]) => (await order('finish', { ticket: 'n', sent })).finished!;
  return { engines, bench, records, order, begin, finish, entry };
}

describe('engines that have joined beside weights that only a trainer has', () => {
  test('are held by its transfer, and are one of the others once they have its weights', async (t) => {
    const { begin, finish, entry } = await joiners(t);
    const answer = await begin();
    assert.deepEqual([answer.version, answer.engines.map(({ url }) => url)], [18, [A, B]]);
    assert.equal((await entry(A)).examined, false);
    await finish();
    for (const url of [A, B]) {
      const { state, version, examined } = await entry(url);
      assert.deepEqual([state, version, examined], ['current', 18, true]);
    }
  });

  test('compute nothing before they have its weights', async (t) => {
    const { engines, begin } = await joiners(t);
    await begin();
    for (const { calls } of engines)
      assert.ok(!calls.includes('logprobsMode') && !calls.includes('promptLogprobs'), calls.join());
  });

  test('are compared with each other where there is nothing else', async (t) => {
    const { engines, begin } = await joiners(t, { isFirst: true });
    engines[1].identity = { ...engines[0].identity, model: 'another' };
    const answer = await begin();
    assert.equal(answer.engines.length, 1);
  });

  test('that leave while they are asked are no engines of the transfer, and stay gone', async (t) => {
    const { engines, begin, records } = await joiners(t, { urls: [] });
    engines[1].before = async (call) => {
      if (call !== 'worldSize') return;
      await records.change((now) => withoutReplica(now!, { url: B, at: Date.now() }));
    };
    const answer = await begin();
    assert.deepEqual(
      answer.engines.map(({ url }) => url),
      [A],
    );
    assert.ok(!engines[1].calls.includes('pause'), engines[1].calls.join());
    assert.deepEqual(Object.keys((await records.latest())!.replicas), [A]);
  });

  test('are left out if they are something else', async (t) => {
    const { engines, begin, entry } = await joiners(t);
    engines[1].identity = { ...engines[0].identity, model: 'another' };
    const answer = await begin();
    assert.deepEqual(
      answer.engines.map(({ url }) => url),
      [A],
    );
    const { state, fault } = await entry(B);
    assert.equal(state, 'away');
    assert.match(fault ?? '', /another/);
  });

  test('and are half loaded are asked nothing that computes, where nothing was ever published', async (t) => {
    const { engines, bench, order, begin, entry } = await joiners(t, { isFirst: true });
    await begin();
    await order('abandon', { ticket: 'n', touched: [0, 1] });
    for (const engine of engines) engine.calls.length = 0;
    await bench.result('bringReplica', {
      service: 'default',
      replica: B,
      version: null,
      mode: 'abort',
    });
    const { state, needs, examined } = await entry(B);
    assert.deepEqual([state, needs, examined], ['unknown', 'load', false]);
    assert.deepEqual(engines[1].calls, ['paused', 'cutOff', 'closeTransfer']);
    assert.equal(engines[1].isPaused(), true);
  });

  test('anew, as another process, are no part of the transfer any more, and nobody pauses them', async (t) => {
    const { engines, order, begin, finish, entry } = await joiners(t, { isFirst: true });
    await begin();
    await engines[1].resume({ within_ms: 1000, signal: new AbortController().signal });
    await order('join', { url: B, instance: 'two' });
    engines[1].calls.length = 0;
    const { faults } = await finish([0]);
    assert.deepEqual(
      [faults[B], engines[1].calls],
      ['it has left, drains, or has joined anew', []],
    );
    const [first, again] = [await entry(A), await entry(B)];
    assert.deepEqual([first.state, first.version], ['current', 1]);
    assert.deepEqual([again.state, again.needs, again.examined], ['away', null, false]);
  });

  test('do not serve if their logprobs are of another kind than those of the others', async (t) => {
    const { engines, bench, begin, finish, entry } = await joiners(t);
    const { records } = bench.dependencies.policy('default')!;
    await records.change(
      (now) => now && { ...now, identity: { ...now.identity!, logprobs_mode: 'processed' } },
    );
    engines[1].mode = 'raw';
    await begin();
    await finish();
    const { state, needs, fault, examined } = await entry(B);
    assert.deepEqual([state, needs, examined], ['unknown', 'load', false]);
    assert.match(fault ?? '', /expected processed logprobs/);
  });
});
