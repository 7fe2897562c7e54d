import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { Publish } from '../../../src/model/policy/orders.js';
import {
  Engines,
  JOINED,
  Join,
  refusalOfEngines,
  refusalOfLeave,
  withDrain,
  withEngines,
  withJoin,
  withoutOverdue,
  withoutReplica,
} from '../../../src/model/policy/replicas.js';
import type { PolicyRecord } from '../../../src/model/policy/record.js';
import { fieldsOf, firstRecord, withReplica } from '../../../src/model/policy/record.js';
import { concluded, withTarget } from '../../../src/model/policy/target.js';
import { isServing } from '../../../src/model/workflow-safe/policy.js';

const FILE = 'http://file/v1';
const A = 'http://a/v1';
const B = 'http://b/v1';
const AT = 1_000_000;

const WEIGHTS = { kind: 'checkpoint', path: '/w' };
const served = (): PolicyRecord =>
  concluded(withTarget(firstRecord([FILE]), Publish.parse({ version: 1, weights: WEIGHTS })));
const join = (record: PolicyRecord, joins: { url: string; [field: string]: unknown }) =>
  withJoin(record, { joins: Join.parse(joins), owner: JOINED, at: AT });
const examined = (record: PolicyRecord, replica: string): PolicyRecord =>
  withReplica(record, { replica, state: 'current', version: 1, examined: true });
const list = (owner: string, ...urls: unknown[]) => Engines.parse({ owner, urls });
const urlsOf = ({ replicas }: PolicyRecord): string[] => Object.keys(replicas).sort();
const serving = ({ replicas }: PolicyRecord): string[] =>
  Object.entries(replicas).flatMap(([url, entry]) => (isServing(entry) ? [url] : []));

describe('a replica that joins', () => {
  test('serves nothing before it has been examined', () => {
    const record = join(served(), { url: A, instance: 'one' });
    const { state, examined, owner, instance } = record.replicas[A]!;
    assert.deepEqual([state, examined, owner, instance], ['away', false, JOINED, 'one']);
    assert.deepEqual(serving(record), [FILE]);
  });

  test('again, by the same process or by one that says nothing, changes nothing', () => {
    const record = examined(join(served(), { url: A, instance: 'one' }), A);
    assert.equal(join(record, { url: A, instance: 'one' }), record);
    assert.equal(join(record, { url: A }), record);
    assert.equal(join(record, { url: FILE }), record);
  });

  test('as another process, or with its weights elsewhere, is examined again', () => {
    const record = examined(join(served(), { url: A, instance: 'one' }), A);
    const epoch = record.replicas[A]!.epoch;
    for (const change of [{ instance: 'two' }, { control_url: 'http://a:1' }]) {
      const next = join(record, { url: A, ...change }).replicas[A]!;
      assert.deepEqual([next.state, next.examined, next.epoch], ['away', false, epoch + 1]);
    }
    assert.equal(join(record, { url: FILE, instance: 'x' }).replicas[FILE]!.owner, null);
  });

  test('while it drains serves on, with its streams', () => {
    const record = examined(join(served(), { url: A }), A);
    const drains = withDrain(record, { url: A, until: AT });
    assert.deepEqual(serving(drains), [FILE]);
    assert.deepEqual(join(drains, { url: A }).replicas[A], record.replicas[A]);
  });
});

describe('a list of engines', () => {
  const two = withEngines(served(), { engines: list('job', A, { url: B, instance: 'b' }), at: AT });

  test('makes new ones join, and leaves those of temporal.yaml alone', () => {
    assert.deepEqual(urlsOf(two), [A, B, FILE]);
    assert.deepEqual([two.replicas[A]!.owner, two.replicas[FILE]!.owner], ['job', null]);
  });

  test('makes the owner’s others leave, and nobody else’s', () => {
    const more = join(two, { url: 'http://c/v1' });
    const next = withEngines(more, { engines: list('job', A), at: AT });
    assert.deepEqual(urlsOf(next), [A, 'http://c/v1', FILE]);
    const kept = withEngines(more, { engines: { ...list('job', A), replace: false }, at: AT });
    assert.deepEqual(urlsOf(kept), urlsOf(more));
  });

  test('may have what an operator has joined, and nothing that another owner has listed', () => {
    const joined = join(served(), { url: A });
    assert.equal(refusalOfEngines(joined, list('job', A, FILE)), null);
    const taken = withEngines(joined, { engines: list('job', A, FILE), at: AT });
    assert.deepEqual([taken.replicas[A]!.owner, taken.replicas[FILE]!.owner], ['job', null]);
    assert.match(refusalOfEngines(two, list('other', A)) ?? '', /http:\/\/a\/v1 of job/);
  });

  test('is refused if it is empty, unless it is forced, and with an engine twice', () => {
    const problem = (input: object): string =>
      Engines.safeParse({ owner: 'job', ...input }).error?.issues[0]?.message ?? 'none';
    assert.match(problem({ urls: [] }), /at least one engine/);
    assert.equal(problem({ urls: [], force: true }), 'none');
    assert.match(problem({ urls: [A, { url: `${A}/` }] }), /each engine once/);
    assert.match(problem({ urls: ['http://user@a/v1'] }), /without user name/);
    assert.match(problem({ urls: [A], owner: JOINED }), /another name/);
  });
});

describe('a replica that leaves', () => {
  test('is gone; one of temporal.yaml stays in sight, and gets nothing until it joins again', () => {
    const record = examined(join(served(), { url: A }), A);
    assert.deepEqual(urlsOf(withoutReplica(record, { url: A, at: AT })), [FILE]);
    const left = withoutReplica(record, { url: FILE, at: AT });
    assert.deepEqual(serving(left), [A]);
    assert.equal(withoutReplica(left, { url: FILE, at: AT + 1 }), left);
    const back = join(left, { url: FILE }).replicas[FILE]!;
    assert.deepEqual([back.examined, back.draining_until], [false, null]);
  });

  test('is not the last one that stays, unless it is forced', () => {
    const record = withDrain(join(served(), { url: A }), { url: A, until: AT });
    const refusal = (url: string, force = false) => refusalOfLeave(record, { url, force });
    assert.match(refusal(FILE) ?? '', /got the last one, http:\/\/file\/v1/);
    const joined = join(served(), { url: A });
    assert.match(refusalOfLeave(joined, { url: FILE, force: false }) ?? '', /got the last one/);
    assert.equal(refusalOfLeave(examined(joined, A), { url: FILE, force: false }), null);
    assert.equal(refusal(FILE, true), null);
    assert.equal(refusal(A), null);
    assert.match(refusal('http://x/v1') ?? '', /expected one of http:\/\/file\/v1, http:\/\/a\/v1/);
  });

  test('gets no new request while it drains, and its streams are what they were', () => {
    const record = examined(join(served(), { url: A }), A);
    const drains = withDrain(record, { url: A, until: AT });
    assert.equal(drains.replicas[A]!.epoch, record.replicas[A]!.epoch);
    assert.equal(withDrain(drains, { url: A, until: AT + 5 }), drains);
  });

  test('has drained at its limit, or was away for too long', () => {
    const limits = { at: AT, forget_after_ms: 1000 };
    const drains = withDrain(examined(join(served(), { url: A }), A), { url: A, until: AT });
    assert.deepEqual(urlsOf(withoutOverdue(drains, limits)), [FILE]);
    assert.equal(withoutOverdue(drains, { ...limits, at: AT - 1 }), drains);
    const away = (url: string, since: number) =>
      withReplica(examined(join(served(), { url: A }), A), {
        replica: url,
        state: 'away',
        away_since: since,
      });
    assert.deepEqual(urlsOf(withoutOverdue(away(A, AT - 1000), limits)), [FILE]);
    assert.deepEqual(urlsOf(withoutOverdue(away(A, AT - 999), limits)), [A, FILE]);
    assert.deepEqual(urlsOf(withoutOverdue(away(FILE, 0), limits)), [A, FILE]);
    assert.deepEqual(urlsOf(withoutOverdue(away(A, 0), { ...limits, forget_after_ms: null })), [
      A,
      FILE,
    ]);
  });

  test('is forgotten in time also where a transfer has found it away', () => {
    const limits = { at: AT, forget_after_ms: 1000 };
    const record = examined(join(served(), { url: A }), A);
    const lost = withReplica(record, { replica: A, state: 'away', fault: 'its transfer broke' });
    const seen = withoutOverdue(lost, limits);
    assert.deepEqual([urlsOf(seen), fieldsOf(seen.replicas[A]!).away_since], [[A, FILE], AT]);
    assert.equal(withoutOverdue(seen, { ...limits, at: AT + 999 }), seen);
    assert.deepEqual(urlsOf(withoutOverdue(seen, { ...limits, at: AT + 1000 })), [FILE]);
  });
});

test('what replicas have in common is forgotten with the last examined one', () => {
  const identity = { model: 'm', max_model_len: 1, tokenizer: 't', logprobs_mode: null };
  const record = { ...examined(join(firstRecord([]), { url: A }), A), identity };
  assert.deepEqual(join(record, { url: B }).identity, identity);
  assert.equal(withoutReplica(join(record, { url: B }), { url: A, at: AT }).identity, null);
});
