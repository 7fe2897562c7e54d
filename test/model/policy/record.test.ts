import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import fc from 'fast-check';
import { Publish } from '../../../src/model/policy/orders.js';
import type { WeightFiles } from '../../../src/model/policy/record.js';
import {
  PolicyRecord,
  firstRecord,
  isUnchanged,
  withReplica,
} from '../../../src/model/policy/record.js';
import { withReplicas } from '../../../src/model/policy/replicas.js';
import {
  concluded,
  isOther,
  isOtherOnAnyHost,
  refusalOfTarget,
  withTarget,
} from '../../../src/model/policy/target.js';
import { isOverdue } from '../../../src/model/policy/care.js';
import { REPLICA_STATES } from '../../../src/model/workflow-safe/policy-states.js';

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

test('a record with a field that this version does not know is refused by its name', () => {
  const { replicas, ...record } = published(5);
  const [entry] = Object.values(replicas);
  for (const later of [
    { ...record, replicas, shards: 2 },
    { ...record, replicas: { 'http://a/v1': { ...entry, shards: 2 } } },
  ])
    assert.match(PolicyRecord.safeParse(later).error?.message ?? '', /shards/);
  assert.ok(PolicyRecord.safeParse({ ...record, replicas }).success);
});

const files = (more: Partial<WeightFiles> = {}): WeightFiles => ({
  ...{ bytes: 10, modified: '2026-01-02T03:04:05.678Z', sha256: 'aa', whole: true, host: 'a' },
  ...more,
});

describe('the files of a version', () => {
  const record = concluded(withTarget(firstRecord(URLS), { ...publish(5), files: files() }));
  const refusal = (now: WeightFiles | null, of = record): string | null =>
    refusalOfTarget(of, { ...publish(5), files: now });

  test('are one content: others at the same path are refused, the same ones are not, whenever they were written', () => {
    assert.equal(
      refusal(files({ sha256: 'bb', bytes: 12 })),
      'weights: expected what "/w/5" had when version 5 was published (10 bytes, written at 2026-01-02T03:04:05.678Z), got others (12 bytes, written at 2026-01-02T03:04:05.678Z); publish other files under a higher version',
    );
    assert.equal(refusal(files({ modified: '2027-01-01T00:00:00.000Z', host: 'b' })), null);
    assert.equal(refusalOfTarget(record, { ...publish(6), files: files({ sha256: 'bb' }) }), null);
  });

  test('that are too large to be read are told apart by their time, on any host', () => {
    const large = concluded(
      withTarget(firstRecord(URLS), { ...publish(5), files: files({ whole: false }) }),
    );
    assert.equal(refusal(files({ whole: false }), large), null);
    const later = files({ whole: false, modified: '2027-01-01T00:00:00.000Z', host: 'b' });
    assert.match(refusal(later, large) ?? '', /got others \(10 bytes, written at 2027/);
    assert.ok(isOther(files({ whole: false }), later));
    assert.ok(!isOtherOnAnyHost(files({ whole: false }), later), 'that host has its own copy');
    assert.ok(isOtherOnAnyHost(files({ whole: false }), { ...later, host: 'a' }));
  });

  test('stay those that were published first, and are unknown where nobody saw them', () => {
    assert.equal(refusal(null), null);
    assert.deepEqual(withTarget(record, publish(5)).weights['5']?.files, files());
    const unseen = published(5);
    assert.equal(unseen.weights['5']?.files, null);
    assert.equal(refusal(files(), unseen), null);
    const older: Record<string, unknown> = { ...unseen.weights['5'] };
    delete older['files'];
    const read = PolicyRecord.parse({ ...unseen, weights: { 5: older } });
    assert.deepEqual(read, unseen, 'a record of an older release');
  });
});

test('a version has a bound far below the last exact number, and a record at it names the way back', () => {
  assert.ok(
    Publish.safeParse({ version: 10 ** 15, weights: { kind: 'checkpoint', path: '/w' } }).success,
  );
  for (const version of [10 ** 15 + 1, Number.MAX_SAFE_INTEGER])
    assert.ok(!Publish.safeParse({ version, weights: { kind: 'checkpoint', path: '/w' } }).success);
  const used = { ...published(5), target: Number.MAX_SAFE_INTEGER };
  assert.match(
    refusalOfTarget(used, publish(6)) ?? '',
    /got 6; no higher version is possible: give the service another name/,
  );
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
          (before, [url, state]) => withReplica(before, { replica: url, state, paused_until: 1 }),
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

test('an entry has the fields of its state alone', () => {
  const [url = ''] = URLS;
  const half = withReplica(published(1), { replica: url, state: 'unknown', needs: 'load' });
  const serving = withReplica(half, { replica: url, state: 'current', version: 1 });
  assert.ok(!('needs' in serving.replicas[url]!));
  const wrong = { ...serving.replicas[url], needs: 'load' };
  const read = PolicyRecord.safeParse({ ...serving, replicas: { [url]: wrong } });
  assert.match(read.error?.message ?? '', /needs/);
  assert.throws(() => withReplica(half, { replica: url, state: 'updating' }), /paused_until/);
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
