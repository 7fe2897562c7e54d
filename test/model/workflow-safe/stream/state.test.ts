import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import type { PolicyView, ReplicaView } from '../../../../src/model/results/answers.js';
import type { PacingState } from '../../../../src/model/workflow-safe/stream/state.js';
import {
  lowestServed,
  pacingFrom,
  servedOf,
  withComplete,
  withFailures,
  withOut,
  withServed,
  withStep,
} from '../../../../src/model/workflow-safe/stream/state.js';
import { groupsOf } from './settings.js';

const replica = (state: ReplicaView['state'], version: number | null): ReplicaView => ({
  state,
  version,
  epoch: 1,
  paused_until: null,
  fault: null,
});

const policy = (version: number | null, replicas: readonly ReplicaView[]): PolicyView => ({
  epoch: 1,
  version,
  target: version,
  weights: {},
  replicas: Object.fromEntries(replicas.map((one, i) => [`http://replica-${i}`, one])),
});

describe('what is served', () => {
  const before = { served: 5 };
  const served = (version: number | null, ...replicas: readonly ReplicaView[]): number =>
    servedOf(before, { policy: policy(version, replicas), given: 99 });

  test('is the lower of the record’s version and the lowest that a replica serves', () => {
    assert.equal(served(7, replica('current', 7), replica('current', 6)), 6);
    assert.equal(served(6, replica('current', 7), replica('current', 7)), 6);
  });

  test('replicas that serve nothing do not count', () => {
    assert.equal(
      served(
        7,
        replica('current', 7),
        replica('unknown', 5),
        replica('away', 4),
        replica('updating', 6),
      ),
      7,
    );
  });

  test('never falls', () => {
    assert.equal(served(7, replica('current', 3)), 5);
    assert.equal(withServed(pacingFrom({ served: 5 }), 4).served, 5);
  });

  test('does not change while it is unknown', () => {
    assert.equal(served(null), 5);
    assert.equal(served(7, replica('current', 7), replica('current', null)), 5);
  });

  test('is the version given last, without a policy workflow', () => {
    assert.equal(servedOf(before, { policy: null, given: 8 }), 8);
    assert.equal(servedOf(before, { policy: null, given: 2 }), 5);
    assert.equal(servedOf(before, { policy: null, given: null }), 5);
  });
});

test('what is born while some replica serves weights that nobody published is born at no known version', () => {
  assert.equal(lowestServed(policy(null, [])), null);
  assert.equal(lowestServed(policy(7, [replica('current', 7), replica('current', null)])), null);
  assert.equal(lowestServed(policy(7, [replica('current', 6), replica('away', null)])), 6);
});

test('a stream that continues from the store serves nothing older than its groups, and its numbers follow theirs', () => {
  const found = pacingFrom({ served: 2, groups: groupsOf('running 3', 'complete 4').toReversed() });
  assert.equal(found.served, 4);
  assert.equal(found.admitted, 2);
  assert.deepEqual(
    found.groups.map(({ group }) => group),
    [0, 1],
  );
});

describe('failures of rollouts', () => {
  const failures = { StoreFault: { rollouts: 2, message: 'disk full', example: 's/0-1' } };

  test('count once for each group, also if its signal comes twice, and anew behind each step', () => {
    const end = (state: PacingState, group: number): PacingState =>
      withFailures(state, { group, failures });
    let state = pacingFrom({ groups: groupsOf('running 0', 'running 0', 'running 0') });
    state = withComplete(end(state, 0), 0);
    state = end(state, 0);
    state = withOut(end(state, 1), { group: 1, outcome: 'failed' });
    state = end(state, 1);
    state = withFailures(state, { group: 2, failures: undefined });
    assert.deepEqual(state.failures, { StoreFault: { ...failures.StoreFault, rollouts: 4 } });
    state = withStep(state, { version: 0, groups: [0] });
    assert.deepEqual(state.failures, {});
    assert.deepEqual(end(state, 2).failures, failures);
  });
});
