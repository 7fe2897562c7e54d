import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { Sleep } from '../../src/model/policy/orders.js';
import type { PolicyRecord } from '../../src/model/policy/record.js';
import {
  fieldsOf,
  firstRecord,
  sleptOf,
  withFields,
  withReplica,
} from '../../src/model/policy/record.js';
import { concluded, withTarget } from '../../src/model/policy/target.js';
import {
  needsLoad,
  refusalOfSleep,
  withoutIdleSleep,
  withoutSleep,
  withSleepers,
} from '../../src/model/policy/sleepers.js';

const A = 'http://a/v1';
const B = 'http://b/v1';
const HOLDER = { name: 'grpo', incarnation: 'one' };
const asked = (given: object = {}): Sleep => Sleep.parse({ holder: HOLDER, ...given });
const how = (level: 1 | 2) => ({ level, label: '7', before: null });

/** A serves version 7; B is half loaded. */
function fleet(): PolicyRecord {
  const weights = { kind: 'checkpoint' as const, path: '/7' };
  const target = withTarget(firstRecord([A, B]), {
    version: 7,
    weights,
    cache: 'reset',
    probe: null,
    pause_limit: '10m',
  });
  const serving = withReplica(concluded(target), { replica: A, state: 'current', version: 7 });
  return withReplica(serving, { replica: B, state: 'unknown', needs: 'load', version: 7 });
}
const asleep = (level: 1 | 2): PolicyRecord =>
  withSleepers(fleet(), {
    sleep: { nonce: 'n', holder: HOLDER, level, until: 5 },
    slept: { [A]: how(level), [B]: how(level) },
  });

describe('engines that sleep', () => {
  test('are loaded whole when they are woken if their weights were dropped, or not whole before', () => {
    for (const [level, expected] of [
      [1, [false, true]],
      [2, [true, true]],
    ] as const) {
      const record = withoutSleep(asleep(level), 'a test');
      assert.deepEqual(
        [A, B].map((url) => record.replicas[url]?.state),
        ['unknown', 'unknown'],
      );
      assert.deepEqual(
        [A, B].map((url) => needsLoad(record, record.replicas[url]!)),
        expected,
      );
    }
  });

  test('that sleep already keep what they were put to sleep with', () => {
    const again = withSleepers(asleep(1), {
      sleep: { nonce: 'm', holder: HOLDER, level: 1, until: 9 },
      slept: { [A]: { ...how(1), label: 'other' } },
    });
    const { slept, needs } = fieldsOf(again.replicas[A]!);
    assert.deepEqual([slept?.label, needs], ['7', null]);
    assert.equal(again.sleep?.until, 9);
  });

  test('are no longer asleep once the last one serves', () => {
    const one = withReplica(asleep(1), { replica: A, state: 'current' });
    assert.deepEqual([withoutIdleSleep(one).sleep?.nonce, sleptOf(one, A)], ['n', null]);
    const both = withReplica(one, { replica: B, state: 'current' });
    assert.equal(withoutIdleSleep(both).sleep, null);
  });

  test('are their holder’s: another incarnation may extend the time, another name may not', () => {
    const heir = asked({ holder: { ...HOLDER, incarnation: 'two' } });
    assert.equal(refusalOfSleep(asleep(1), heir), null);
    const other = asked({ holder: { ...HOLDER, name: 'ppo' } });
    assert.match(refusalOfSleep(asleep(1), other) ?? '', /"grpo" .* has put the engines to sleep/);
    assert.match(refusalOfSleep(asleep(2), asked()) ?? '', /level: expected 2, .* got 1/);
  });

  test('with adapters keep their weights', () => {
    const record = fleet();
    const adapters = [{ version: 8, name: 'default.8.0a' }];
    const served = withFields(record, { replica: A, adapters });
    assert.match(
      refusalOfSleep(served, asked({ level: 2 })) ?? '',
      /level: expected 1 while engines have adapters, got 2/,
    );
    assert.equal(refusalOfSleep(served, asked()), null);
  });
});
