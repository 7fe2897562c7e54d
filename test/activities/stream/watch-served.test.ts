/** What a stream learns of the policy that it waits for, from the policy's record. */
import assert from 'node:assert/strict';
import type { TestContext } from 'node:test';
import { describe, test } from 'node:test';
import { setTimeout as sleep } from 'node:timers/promises';
import type { Served } from '../../../src/activities/contract/stream.js';
import { createPolicyRecords } from '../../../src/activities/policy/policy-records.js';
import type { Waiting } from '../../../src/model/results/answers.js';
import type { ReplicaChange } from '../../../src/model/policy/record.js';
import { entryOf, fieldsOf, firstRecord } from '../../../src/model/policy/record.js';
import type { Bench } from '../../fakes/activity-bench.js';
import { activityBench } from '../../fakes/activity-bench.js';

const A = 'http://a/v1';
const NOTHING: Served = { served: 0, is_published: false };

async function put(bench: Bench, change: Partial<ReplicaChange>): Promise<void> {
  const records = createPolicyRecords('default', { facts: bench.store.facts });
  await records.change((record) => {
    const last = record ?? firstRecord([A]);
    const entry = entryOf({ ...fieldsOf(last.replicas[A]!), paused_until: 1, ...change });
    return { ...last, version: entry.version, replicas: { [A]: entry } };
  });
}

const watch = (bench: Bench, known: Served): Promise<Served> =>
  bench.result('watchServed', { service: 'default', known });

test('a watched policy that serves nothing says why, since when, and when it serves again', async (t) => {
  const bench = await activityBench(t, { controls: [] });
  await put(bench, { state: 'unknown', fault: 'load: no such file' });
  const silent = await watch(bench, NOTHING);
  assert.equal(silent.is_published, true);
  const { service, message, since = '' } = silent.waiting ?? {};
  assert.equal(service, 'policy default');
  assert.equal(
    message,
    `no replica serves: ${A} is unknown (load: no such file); publish a version that loads`,
  );
  assert.match(since, /^\d{4}-\d\d-\d\d [\d:]{8} UTC$/);

  // Another fault is news; the wait has begun before.
  const earlier = { ...silent, waiting: { ...silent.waiting!, since: '2026-01-01 12:30:05 UTC' } };
  await put(bench, { fault: 'probe: other logprobs' });
  const { waiting } = await watch(bench, earlier);
  assert.match(waiting?.message ?? '', /\(probe: other logprobs\)/);
  assert.equal(waiting?.since, '2026-01-01 12:30:05 UTC');

  await put(bench, { state: 'current', version: 1, fault: null });
  const served = await watch(bench, earlier);
  assert.deepEqual([served.served, served.waiting], [1, null]);
});

test('a load that is under way is no news: it may be one of many tries', async (t) => {
  const bench = await activityBench(t, { controls: [] });
  await put(bench, { state: 'unknown', fault: 'load: no such file' });
  const silent = await watch(bench, NOTHING);
  await put(bench, { state: 'updating' });
  const { waiting } = await watch(bench, { ...silent, is_published: false });
  assert.deepEqual(waiting, silent.waiting);
});

test('a group is born at the lowest version of the record as it is now, whatever the workflow has seen', async (t) => {
  const bench = await activityBench(t, { controls: [] });
  const admit = async (first: number, born: number | null): Promise<number | null> => {
    const input = { stream_id: 'run', first, count: 1, born, service: 'default' };
    return (await bench.result('admitGroups', input))[0]!.born;
  };
  assert.equal(await admit(0, null), null);
  assert.equal(await admit(1, 3), 3, 'without a record, what the trainer gave');
  await put(bench, { state: 'current', version: null });
  assert.equal(await admit(2, 3), null, 'a replica with weights that nobody published');
  await put(bench, { state: 'current', version: 5 });
  assert.equal(await admit(3, 4), 5);
  assert.equal(await admit(2, 4), null, 'a birth that was put stays');
});

test('a record that is asked for at once is answered at once, news or not', async (t) => {
  const bench = await activityBench(t, { controls: [] });
  await put(bench, { state: 'current', version: 5 });
  const input = { service: 'default', known: NOTHING };
  const known = await bench.result('watchServed', input);
  assert.deepEqual([known.served, known.born, known.target], [5, 5, null]);
  assert.deepEqual(await bench.result('watchServed', { ...input, known, at_once: true }), known);
});

test('a service without a record has no news, also for a stream that has heard so before', async (t) => {
  const bench = await activityBench(t, { controls: [] });
  const known = { ...NOTHING, born: null, target: null, waiting: null };
  let cancel = (): void => undefined;
  const watching = bench.run('watchServed', {
    input: { service: 'default', known },
    cancelling: (by) => {
      cancel = by;
    },
  });
  const first = await Promise.race([watching, sleep(700).then(() => 'silent')]);
  cancel();
  assert.equal(first, 'silent');
  await watching;
});

describe('a queue of a stream that nobody polls', () => {
  const UNPOLLED = { service: 'a worker of task queue q', message: 'none polls it' };
  const asked: string[] = [];
  const benchOf = (t: TestContext, waiting: () => Waiting | null): Promise<Bench> =>
    activityBench(t, {
      controls: [],
      waitOfQueue: (name) => {
        asked.push(name);
        return Promise.resolve(name.endsWith('generation') ? null : waiting());
      },
    });

  test('is news at once, and so is that somebody polls it again', async (t) => {
    let waiting: Waiting | null = UNPOLLED;
    const bench = await benchOf(t, () => waiting);
    const told = await watch(bench, NOTHING);
    assert.deepEqual(told.waiting, UNPOLLED);
    assert.ok(asked.includes('queue-of-task'), asked.join());
    waiting = null;
    assert.equal((await watch(bench, told)).waiting ?? null, null);
  });

  test('is kept by a reading that answers at once, and stands behind a policy that serves nothing', async (t) => {
    const bench = await benchOf(t, () => UNPOLLED);
    const known: Served = { ...NOTHING, waiting: UNPOLLED };
    const read = await bench.result('watchServed', { service: 'default', known, at_once: true });
    assert.deepEqual(read.waiting, UNPOLLED);
    await put(bench, { state: 'unknown', fault: 'load: no such file' });
    assert.equal((await watch(bench, known)).waiting?.service, 'policy default');
  });
});
