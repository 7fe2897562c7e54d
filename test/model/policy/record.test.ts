import assert from 'node:assert/strict';
import test from 'node:test';
import fc from 'fast-check';
import { Publish } from '../../../src/model/policy/publish.js';
import type { PolicyRecord } from '../../../src/model/policy/record.js';
import {
  concluded,
  firstRecord,
  isOverdue,
  refusalOfTarget,
  isUnchanged,
  withReplica,
  withReplicas,
  withTarget,
} from '../../../src/model/policy/record.js';
import { REPLICA_STATES } from '../../../src/model/workflow-safe/policy.js';

const URLS = ['http://a/v1', 'http://b/v1'];
const publish = (version: number, path = `/w/${version}`): Publish =>
  Publish.parse({ version, weights: { kind: 'checkpoint', path } });
const published = (version: number): PolicyRecord =>
  concluded(withTarget(firstRecord(URLS), publish(version)));

test('a target is above every one before, or the same with the same weights', () => {
  assert.equal(refusalOfTarget(null, publish(0)), null);
  const record = published(5);
  assert.equal(refusalOfTarget(record, publish(6)), null);
  assert.equal(refusalOfTarget(record, publish(5)), null);
  assert.match(refusalOfTarget(record, publish(5, '/other')) ?? '', /"\/w\/5", got .*"\/other"/);
  assert.match(
    refusalOfTarget(record, publish(4)) ?? '',
    /expected more than 5, the last one tried, got 4/,
  );
});

test('a version has a bound far below the last exact number, and a record at it names the way back', () => {
  assert.ok(Publish.safeParse({ version: 10 ** 15, weights: { kind: 'checkpoint', path: '/w' } }).success); // prettier-ignore
  for (const version of [10 ** 15 + 1, Number.MAX_SAFE_INTEGER])
    assert.ok(!Publish.safeParse({ version, weights: { kind: 'checkpoint', path: '/w' } }).success);
  const used = { ...published(5), target: Number.MAX_SAFE_INTEGER };
  assert.match(refusalOfTarget(used, publish(6)) ?? '', /got 6; there is no higher one: give the service another name/); // prettier-ignore
  assert.doesNotMatch(refusalOfTarget(published(5), publish(4)) ?? '', /another name/);
});

test('a record keeps how its version and its target are brought, and nothing older', () => {
  const record = withTarget(withTarget(published(1), publish(2)), publish(3));
  assert.deepEqual(Object.keys(record.weights), ['1', '3']);
  assert.deepEqual(Object.keys(concluded(record).weights), ['3']);
  assert.equal(concluded(record).version, 3);
});

test('a replica’s epoch grows with each change of its own, and with no other', () => {
  fc.assert(
    fc.property(
      fc.array(fc.tuple(fc.constantFrom(...URLS), fc.constantFrom(...REPLICA_STATES))),
      (changes) => {
        const record = changes.reduce(
          (before, [url, state]) => withReplica(before, { replica: url, state }),
          firstRecord(URLS),
        );
        for (const url of URLS) {
          const epoch = changes.filter(([changed]) => changed === url).length;
          assert.ok(isUnchanged(record, { replica: url, epoch }));
          assert.ok(!isUnchanged(record, { replica: url, epoch: epoch + 1 }));
        }
      },
    ),
  );
});

test('a replica that joins serves nothing yet; one that is gone is left out', () => {
  const record = withReplicas(published(1), ['http://b/v1', 'http://c/v1']);
  assert.deepEqual(Object.keys(record.replicas), ['http://b/v1', 'http://c/v1']);
  assert.equal(record.replicas['http://c/v1']?.state, 'away');
});

test('a pause is overdue from its limit on', () => {
  const record = withReplica(published(1), {
    replica: URLS[0]!,
    state: 'updating',
    paused_until: 1000,
  });
  assert.equal(isOverdue(record, 999), false);
  assert.equal(isOverdue(record, 1001), true);
});

test('what a probe says has to fit its prompt', () => {
  const probe = (prompt_ids: number[], logprobs: number[]) =>
    Publish.safeParse({
      version: 1,
      weights: { kind: 'checkpoint', path: '/w' },
      probe: { prompt_ids, logprobs },
    }).success;
  assert.equal(probe([1, 2, 3], [-1, -2]), true);
  assert.equal(probe([1, 2, 3], [-1, -2, -3]), false);
  assert.equal(probe([1], []), false);
});

test('path and probe are short: the record is written anew with each change of a replica', () => {
  const publish = (path: string, ids: number) =>
    Publish.safeParse({
      version: 1,
      weights: { kind: 'checkpoint', path },
      probe: { prompt_ids: Array(ids).fill(1), logprobs: Array(ids - 1).fill(-1) },
    }).success;
  assert.equal(publish('/'.repeat(4096), 16_384), true);
  assert.equal(publish('/'.repeat(4097), 2), false);
  assert.equal(publish('/', 16_385), false);
});
