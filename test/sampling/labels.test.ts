import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { labelByFence } from '../../src/sampling/labels.js';
import type { Fault } from '../../src/model/faults.js';
import type { PolicyRecord, ReplicaChange, ReplicaEntry } from '../../src/model/policy/record.js';
import { entryOf, firstRecord } from '../../src/model/policy/record.js';
import { faultOf } from '../fakes/temporary-store.js';

const URL = 'http://replica/v1';
const entry = (given: Partial<ReplicaChange> & { epoch?: number } = {}): ReplicaEntry =>
  entryOf({ state: 'current', version: 17, epoch: 4, paused_until: 1, ...given });

/** A stream that was sent under version 17, epoch 4. */
function fenced({
  names_spans = false,
  says = '17',
  version = 17,
}: { names_spans?: boolean; says?: string | null; version?: number | null } = {}) {
  const records = [entry({ version })];
  const world = {
    moves: (...to: ReplicaEntry[]) => void records.push(...to),
    forgotten: new Set<number>(),
    says,
    asked: 0,
    time: 0,
    distrusted: [] as string[],
    slept: 0,
  };
  const at = (epoch: number): Promise<PolicyRecord | null> => {
    const replica = world.forgotten.has(epoch) ? undefined : records[epoch];
    if (replica === undefined) return Promise.resolve(null);
    return Promise.resolve({ ...firstRecord([]), epoch, replicas: { [URL]: replica } });
  };
  const labels = labelByFence({
    fence: { version, adapter: null, epoch: 4, record_epoch: 0 },
    policy: { latest: () => at(records.length - 1), at },
    service: {
      replica: URL,
      weightVersion: () => {
        world.asked += 1;
        return Promise.resolve(world.says);
      },
    },
    names_spans: () => names_spans,
    offset: 10,
    now: () => world.time,
    signal: new AbortController().signal,
    distrust: (why) => Promise.resolve(void world.distrusted.push(why)),
    sleep: () => {
      world.slept += 1;
      return Promise.resolve();
    },
  });
  return { labels, world };
}

const MINE = { policy_version: '17', version_source: 'record' };

test('tokens have the version of the record while the replica is unchanged', async () => {
  const { labels, world } = fenced();
  assert.deepEqual(await labels.ofArrived(20), MINE);
  assert.deepEqual(await labels.ofArrived(20), MINE);
  assert.equal(world.asked, 1);
});

test('a stream without spans is cut once the replica has moved on, also where it has come back to the version', async () => {
  for (const moved of [entry({ state: 'updating', epoch: 5 }), entry({ epoch: 6 })]) {
    const { labels, world } = fenced();
    await labels.ofArrived(20);
    world.moves(moved);
    assert.equal(await labels.ofArrived(20), 'moved');
  }
});

test('another process behind the URL is distrusted, and none of its tokens is labelled', async () => {
  const { labels, world } = fenced({ says: 'default' });
  await assert.rejects(labels.ofArrived(20), faultOf('PolicyVersionMismatch', /"17".*"default"/));
  assert.equal(world.distrusted.length, 1);
});

test('a server without a label is believed', async () => {
  const { labels } = fenced({ says: null });
  assert.deepEqual(await labels.ofArrived(20), MINE);
});

test('a label that an update has changed meanwhile is no other process', async () => {
  const { labels, world } = fenced({ says: '18' });
  world.moves(entry({ state: 'updating', epoch: 5 }));
  assert.equal(await labels.ofArrived(20), 'moved');
  assert.deepEqual(world.distrusted, []);
});

test('tokens under a label in transit have none, and the stream goes on before them', async () => {
  const { labels, world } = fenced({ names_spans: true });
  await labels.ofArrived(20);
  world.moves(entry({ state: 'updating', epoch: 5 }));
  await labels.ofArrived(60);
  world.moves(entry({ version: 18, epoch: 6 }));
  const spans = [
    { version: '17', start: 0, end: 40 },
    { version: '18?n1', start: 40, end: 50 },
    { version: '18', start: 50, end: 90 },
  ];
  assert.deepEqual(await labels.ofSpans(spans), [
    { from: 0, label: { policy_version: '17', version_source: 'engine' } },
    { from: 40, label: { policy_version: null, version_source: 'pending' } },
  ]);
  assert.deepEqual(world.distrusted, []);
});

test('spans label a stream that has lived through an update, once the record agrees', async () => {
  const { labels, world } = fenced({ names_spans: true });
  await labels.ofArrived(20);
  world.moves(entry({ state: 'updating', epoch: 5 }));
  assert.deepEqual(await labels.ofArrived(20), { policy_version: null, version_source: 'pending' });
  world.moves(entry({ version: 18, epoch: 6 }));
  const spans = [
    { version: '17', start: 0, end: 40 },
    { version: '18', start: 40, end: 90 },
  ];
  assert.deepEqual(await labels.ofSpans(spans), [
    { from: 0, label: { policy_version: '17', version_source: 'engine' } },
    { from: 40, label: { policy_version: '18', version_source: 'engine' } },
  ]);
});

test('spans name versions that the record has left behind again', async () => {
  const { labels, world } = fenced({ names_spans: true });
  world.moves(
    entry({ state: 'updating', epoch: 5 }),
    entry({ version: 18, epoch: 6 }),
    entry({ state: 'updating', version: 18, epoch: 7 }),
  );
  await labels.ofArrived(20);
  world.moves(entry({ version: 19, epoch: 8 }));
  const spans = ['17', '18', '19'].map((version, i) => ({
    version,
    start: 10 * i,
    end: 10 * i + 10,
  }));
  const labelled = await labels.ofSpans(spans);
  assert.ok(labelled !== 'moved');
  assert.deepEqual(
    labelled.map(({ from, label }) => [from, label.policy_version]),
    [
      [0, '17'],
      [10, '18'],
      [20, '19'],
    ],
  );
});

test('spans that the record does not confirm label nothing', async () => {
  const after = [entry({ state: 'unknown', epoch: 6 }), entry({ version: 19, epoch: 8 })];
  for (const now of after) {
    const { labels, world } = fenced({ names_spans: true });
    world.moves(entry({ state: 'updating', epoch: 5 }));
    await labels.ofArrived(20);
    world.moves(now);
    assert.equal(await labels.ofSpans([{ version: '18', start: 0, end: 9 }]), 'moved');
  }
});

test('the end of an update is waited for, and not for ever', async () => {
  const { labels, world } = fenced({ names_spans: true });
  world.moves(entry({ state: 'updating', epoch: 5 }));
  await labels.ofArrived(20);
  assert.equal(await labels.ofSpans([{ version: '18', start: 0, end: 9 }]), 'moved');
  assert.ok(world.slept > 10 && world.slept <= 300);
});

test('an engine that names other weights than the record, without an update, is another process', async () => {
  const { labels, world } = fenced({ names_spans: true });
  await labels.ofArrived(20);
  await assert.rejects(
    labels.ofSpans([{ version: 'default', start: 0, end: 9 }]),
    (error: Fault) => error.type === 'PolicyVersionMismatch',
  );
  assert.equal(world.distrusted.length, 1);
});

test("what a replica served before its first update goes by the engine's own name", async () => {
  const { labels, world } = fenced({ names_spans: true, says: 'default', version: null });
  assert.deepEqual(await labels.ofArrived(20), { policy_version: null, version_source: 'none' });
  const before = { from: 0, label: { policy_version: 'default', version_source: 'engine' } };
  const spans = [{ version: 'default', start: 0, end: 40 }];
  assert.deepEqual(await labels.ofSpans(spans), [before]);
  world.moves(entry({ state: 'updating', version: null, epoch: 5 }), entry({ epoch: 6 }));
  assert.deepEqual(await labels.ofArrived(20), { policy_version: null, version_source: 'pending' });
  assert.deepEqual(await labels.ofSpans([...spans, { version: '17', start: 40, end: 90 }]), [
    before,
    { from: 40, label: { policy_version: '17', version_source: 'engine' } },
  ]);
  assert.equal(await labels.ofSpans([{ version: '18', start: 0, end: 90 }]), 'moved');
});

describe('weights that somebody else has changed during a stream', () => {
  const MISMATCH = faultOf('PolicyVersionMismatch', /"17".*"42"/);

  test('are seen within seconds, and no token since the last answer is trusted', async () => {
    const { labels, world } = fenced();
    await labels.ofArrived(20);
    world.time = 5000;
    assert.deepEqual(await labels.ofArrived(30), MINE);
    world.time = 9000;
    assert.deepEqual(await labels.ofArrived(40), MINE);
    assert.deepEqual([world.asked, labels.distrustedFrom()], [2, null]);
    world.says = '42';
    world.time = 10_000;
    await assert.rejects(labels.ofArrived(50), MISMATCH);
    assert.deepEqual([labels.distrustedFrom(), world.distrusted.length], [30, 1]);
  });

  test('are seen before its last tokens are labelled, however short it is', async () => {
    const { labels, world } = fenced();
    await labels.ofArrived(20);
    world.says = '42';
    labels.ends();
    await assert.rejects(labels.ofArrived(30), MISMATCH);
    assert.equal(labels.distrustedFrom(), 10);
  });

  test('are seen at its end, where its last tokens are labelled already', async () => {
    const { labels, world } = fenced();
    await labels.ofArrived(20);
    world.says = '42';
    labels.ends();
    await assert.rejects(labels.ended(20), MISMATCH);
    assert.equal(labels.distrustedFrom(), 10);
  });

  test('cost an end one question, and one without tokens none', async () => {
    const { labels, world } = fenced();
    labels.ends();
    await labels.ended(10);
    assert.equal(world.asked, 0);
    await labels.ofArrived(20);
    labels.ends();
    await labels.ofArrived(30);
    await labels.ended(30);
    assert.equal(world.asked, 2);
  });

  test('and that another stream has seen let this one distrust its tokens, too', async () => {
    const { labels, world } = fenced();
    await labels.ofArrived(20);
    world.moves(entry({ state: 'unknown', epoch: 5 }), entry({ state: 'updating', epoch: 6 }));
    assert.equal(await labels.ofArrived(30), 'moved');
    assert.equal(labels.distrustedFrom(), 10);
  });

  test('that only a forgotten record shows let it distrust its tokens, as nobody knows better', async () => {
    const { labels, world } = fenced();
    await labels.ofArrived(20);
    world.moves(entry({ state: 'unknown', epoch: 5 }), entry({ state: 'updating', epoch: 6 }));
    world.forgotten.add(1);
    assert.equal(await labels.ofArrived(30), 'moved');
    assert.equal(labels.distrustedFrom(), 10);
  });

  test('are none where an update has begun', async () => {
    const { labels, world } = fenced();
    await labels.ofArrived(20);
    world.moves(entry({ state: 'updating', epoch: 5 }), entry({ state: 'unknown', epoch: 6 }));
    assert.equal(await labels.ofArrived(30), 'moved');
    assert.deepEqual([labels.distrustedFrom(), world.distrusted], [null, []]);
  });

  test('cannot be seen where the engine does not answer any more: the record stands', async () => {
    const { labels, world } = fenced();
    await labels.ofArrived(20);
    world.says = null;
    labels.ends();
    assert.deepEqual(await labels.ofArrived(30), MINE);
  });

  test('are named by the spans of the stream: its tokens are dropped, not labelled', async () => {
    const { labels } = fenced({ names_spans: true });
    await labels.ofArrived(20);
    await assert.rejects(labels.ofSpans([{ version: '42', start: 0, end: 9 }]), MISMATCH);
    assert.equal(labels.distrustedFrom(), 10);
  });
});
