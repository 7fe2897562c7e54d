/** A load that broke: the engine may have a part of its weights. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { controlFault } from '../fakes/controlled-engine.js';
import { ORDER, updating } from '../fakes/updated-replica.js';

test('an engine stays cut off and paused where its load breaks, because it may have a part of its weights', async (t) => {
  const { engine, bench, entry } = await updating(t);
  engine.before = (call) => {
    if (call === 'load') throw controlFault('GenerationRejected', 400);
  };
  const { type, nonRetryable } = await bench.failure('bringReplica', ORDER);
  assert.deepEqual([type, nonRetryable], ['PolicyUpdateFailed', true]);
  assert.deepEqual(engine.calls.slice(-2), ['paused', 'cutOff']);
  assert.equal(engine.isPaused(), true);
  const { state, needs, paused_until, fault } = await entry();
  assert.deepEqual([state, needs, paused_until], ['unknown', 'load', null]);
  assert.match(fault ?? '', /load: the engine says 400/);
});

test('an engine that hangs in its load stays paused at the limit of its pause', async (t) => {
  const { engine, bench, entry } = await updating(t, { pause_limit: '2s' });
  engine.load = (_, { within_ms }) => {
    assert.ok(within_ms <= 2000);
    return new Promise((_resolve, reject) => {
      setTimeout(() => {
        reject(controlFault('GenerationUnavailable'));
      }, within_ms);
    });
  };
  const { message } = await bench.failure('bringReplica', ORDER);
  assert.match(message, /load: the engine says nothing/);
  assert.equal(engine.isPaused(), true);
  const { state, needs } = await entry();
  assert.deepEqual([state, needs], ['unknown', 'load']);
});
