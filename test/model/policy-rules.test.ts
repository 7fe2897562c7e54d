import assert from 'node:assert/strict';
import test from 'node:test';
import type { ReplicaState } from '../../src/model/workflow-safe/policy-states.js';
import type { PolicyView } from '../../src/model/results/answers.js';
import {
  countAt,
  isPhaseNews,
  lacking,
  mayReach,
  neededOf,
  restoreDelayMs,
  toRestore,
} from '../../src/model/workflow-safe/policy.js';
import { aimOf } from '../../src/model/workflow-safe/policy-texts.js';

const viewOf = (
  replicas: Record<string, [ReplicaState, number | null]>,
  version: number | null = 1,
): PolicyView => ({
  epoch: 3,
  version,
  target: 2,
  weights: {},
  replicas: Object.fromEntries(
    Object.entries(replicas).map(([url, [state, has]]) => [
      url,
      { state, version: has, epoch: 0, paused_until: null, fault: null },
    ]),
  ),
});

test('those that lack a version are updated, those that serve nothing first, those that are away not at all', () => {
  const view = viewOf({ a: ['current', 1], b: ['unknown', 2], c: ['current', 2], d: ['away', 1] });
  assert.deepEqual(lacking(view, 2), ['b', 'a']);
});

test('without a quorum all available replicas must have it', () => {
  const view = viewOf({ a: ['current', 2], b: ['current', 1], c: ['away', 1] });
  assert.equal(neededOf(view, { quorum: null }), 2);
  assert.equal(neededOf(view, { quorum: 1 }), 1);
  assert.equal(countAt(view, 2), 1);
});

test('an update that can no longer reach its quorum touches no further replica', () => {
  const view = viewOf({ a: ['current', 1], b: ['current', 1], c: ['current', 1] });
  assert.equal(mayReach(view, { quorum: null, failed: 0 }), true);
  assert.equal(mayReach(view, { quorum: null, failed: 1 }), false);
  assert.equal(mayReach(view, { quorum: 2, failed: 1 }), true);
  assert.equal(mayReach(view, { quorum: 2, failed: 2 }), false);
});

test('what does not serve is restored, unless nothing has been published to restore', () => {
  const replicas = { a: ['updating', 1], b: ['current', 1], c: ['away', null] } as const;
  const given = Object.fromEntries(
    Object.entries(replicas).map(([url, [state, has]]) => [
      url,
      [state, has] as [ReplicaState, number | null],
    ]),
  );
  assert.deepEqual(toRestore(viewOf(given)), ['a', 'c']);
  assert.deepEqual(toRestore(viewOf(given, null)), []);
});

test('none is given weights while a trainer has the engines, whether it has joined or is back', () => {
  const view = viewOf({ a: ['updating', 1], b: ['away', 1], c: ['away', null] });
  view.replicas['c'] = { ...view.replicas['c']!, examined: false };
  const ticket = {
    nonce: 'n',
    version: 2,
    holder: { name: 'grpo', incarnation: 'one' },
    paused_until: 1,
    stall_ms: 1,
    engines: ['a'],
  };
  assert.deepEqual(toRestore({ ...view, ticket }), []);
  assert.deepEqual(toRestore({ ...view, ticket: null }), ['a', 'b', 'c']);
});

test('waits between restorations grow to two minutes', () => {
  assert.equal(restoreDelayMs(0), 5000);
  assert.equal(restoreDelayMs(1000), 120_000);
});

test('a target that is not the version is on its way until its update has failed', () => {
  const record = { version: 3, target: 4 };
  const of = (version: number, fault: string | null) => [{ version, fault }];
  assert.equal(aimOf({ version: 4, target: 4 }, of(4, null)), '');
  assert.equal(aimOf(record, []), ', 4 is being brought');
  assert.equal(aimOf(record, of(3, 'failed before')), ', 4 is being brought');
  assert.equal(aimOf(record, of(4, 'no such file')), ', 4 was not reached');
});

test('a signal that is none of ours is ignored', () => {
  assert.equal(isPhaseNews({ replica: 'a', phase: 'load' }), true);
  for (const wrong of [
    null,
    undefined,
    3,
    'load',
    {},
    { replica: 1, phase: 'load' },
    { replica: 'a', phase: 'nap' },
  ])
    assert.equal(isPhaseNews(wrong), false);
});
