/** An engine that has dropped its weights to sleep, and is loaded from files when it wakes. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { PROBE } from '../fakes/controlled-engine.js';
import { A, B, HOLDER, fleet } from '../fakes/held-fleet.js';

test('one that computes something else with the same weights than before it slept serves nothing', async (t) => {
  const { engines, bench, order, restore, entry } = await fleet(t, { path: '/weights-17' });
  const sleep = { holder: HOLDER, level: 2 };
  await order('sleep', sleep);
  await order('wake', {});
  // A part of its state is in no file: it was dropped, too.
  engines[1].promptLogprobs = () => Promise.resolve(PROBE.logprobs.map((one) => one - 1));
  await bench.result('bringReplica', restore(A));
  const { message } = await bench.failure('bringReplica', restore(B));
  assert.match(message, /http:\/\/b\/v1: probe: its logprobs differ from those before it slept/);
  const [good, bad] = [await entry(A), await entry(B)];
  assert.deepEqual([good.state, good.version], ['current', 17]);
  assert.deepEqual([bad.state, bad.needs], ['unknown', 'load']);
  assert.deepEqual([engines[0].weights(), engines[1].weights()], ['/weights-17', '/weights-17']);
  assert.equal(engines[1].isPaused(), true);
});
