import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { createReplicas } from '../../src/generation/replicas/replicas.js';
import {
  JOINED,
  Join,
  withDrain,
  withJoin,
  withoutReplica,
} from '../../src/model/policy/replicas.js';
import type { PolicyRecord } from '../../src/model/policy/record.js';
import { firstRecord, withReplica } from '../../src/model/policy/record.js';
import type { FakeReplica } from '../fakes/fake-replica.js';
import { fakeReplica } from '../fakes/fake-replica.js';
import { manualClock, settled } from '../fakes/manual-clock.js';

const FILE = 'http://file/v1';
const A = 'http://a/v1';
const FOREIGN = 'http://foreign/v1';

const joined = (record: PolicyRecord, url: string): PolicyRecord =>
  withJoin(record, { joins: Join.parse({ url }), owner: JOINED, at: 0 });
const admitted = (record: PolicyRecord, replica: string): PolicyRecord =>
  withReplica(record, { replica, state: 'current', examined: true });

/** A worker whose record the test writes, and what it asks its engines. */
function worker({ files = [FILE] }: { files?: string[] } = {}) {
  let record: PolicyRecord | null = null;
  const clock = manualClock();
  const fakes = new Map<string, FakeReplica>();
  const probed: string[] = [];
  const connect = (url: string): FakeReplica => {
    const fake = fakeReplica(url);
    fakes.set(url, fake);
    return fake;
  };
  const replicas = createReplicas(files.map(connect), {
    max_concurrent: 100,
    clock,
    random: () => 0,
    probe: ({ replica }) => {
      probed.push(replica);
      return Promise.resolve('processed');
    },
    connect: (url) => (url === FOREIGN ? null : connect(url)),
    policy: { latest: () => Promise.resolve(record), at: () => Promise.resolve(record) },
  });
  const signal = new AbortController().signal;
  const askedBy = async (is_generation: boolean): Promise<string[]> => {
    const all = await Promise.all(
      Array.from({ length: 40 }, (_, i) =>
        replicas.request({ session_id: `s${i}`, signal, is_generation }, ({ replica }) =>
          Promise.resolve(replica),
        ),
      ),
    );
    return [...new Set(all)].sort();
  };
  return {
    replicas,
    clock,
    fakes,
    probed,
    signal,
    /** Returns the record with its epoch. */
    write: (next: PolicyRecord): PolicyRecord => {
      record = { ...next, epoch: (record?.epoch ?? -1) + 1 };
      return record;
    },
    generates: () => askedBy(true),
    renders: () => askedBy(false),
    probes: () =>
      replicas.askServing((_, { logprobsMode }) => logprobsMode('m', { signal }), signal),
  };
}

describe('a worker', () => {
  test('sends nothing to an engine that has joined before it was examined, and then its share', async () => {
    const world = worker();
    const before = world.write(joined(firstRecord([FILE]), A));
    assert.deepEqual(await world.generates(), [FILE]);
    assert.deepEqual(await world.renders(), [FILE]);
    assert.deepEqual(await world.probes(), [{ replica: FILE, answer: 'processed' }]);
    const record = world.write(admitted(before, A));
    assert.deepEqual(await world.generates(), [A, FILE]);
    assert.deepEqual(await world.renders(), [A, FILE]);
    world.write(withDrain(record, { url: A, until: 1 }));
    assert.deepEqual(await world.generates(), [FILE]);
  });

  test('connects to no engine that its own temporal.yaml does not allow', async () => {
    const world = worker();
    world.write(admitted(joined(firstRecord([FILE]), FOREIGN), FOREIGN));
    assert.deepEqual(await world.generates(), [FILE]);
    assert.deepEqual([...world.fakes.keys()], [FILE]);
  });

  test('cuts off what an engine that has left still samples, and closes it', async () => {
    const world = worker();
    const record = world.write(admitted(joined(firstRecord([FILE]), A), A));
    await world.replicas.look();
    world.write(withoutReplica(record, { url: A, at: 0 }));
    await world.replicas.look();
    await settled();
    assert.equal(world.fakes.get(A)!.closed, true);
    assert.equal(world.fakes.get(FILE)!.closed, false);
    assert.deepEqual(await world.renders(), [FILE]);
  });

  test('cuts off one of temporal.yaml that has left, too, and connects to it once it joins again', async () => {
    const world = worker();
    const record = world.write(admitted(joined(firstRecord([FILE]), A), A));
    const [first] = world.fakes.values();
    await world.replicas.look();
    const left = world.write(withoutReplica(record, { url: FILE, at: 0 }));
    assert.deepEqual(await world.generates(), [A]);
    await settled();
    assert.equal(first!.closed, true);
    world.write(admitted(joined(left, FILE), FILE));
    assert.deepEqual(await world.generates(), [A, FILE]);
    assert.equal(world.fakes.get(FILE)!.closed, false);
  });

  test('waits for the first engine where temporal.yaml names none', async () => {
    const world = worker({ files: [] });
    const said: (string | null)[] = [];
    const waits = world.replicas.request(
      {
        session_id: 's',
        signal: world.signal,
        is_generation: true,
        unserved: (why) => said.push(why),
      },
      ({ replica }) => Promise.resolve(replica),
    );
    await settled();
    await world.clock.pass(1100);
    await assert.rejects(world.renders(), /no engine is there/);
    assert.match(said[0] ?? '', /none has joined/);
    world.write(admitted(joined(firstRecord([]), A), A));
    await world.clock.pass(100);
    assert.equal(await waits, A);
  });

  test('asks no engine to compute that does not serve, and the others once until their entry changes', async () => {
    const world = worker();
    const serving = world.write(admitted(joined(firstRecord([FILE]), A), A));
    const half = { replica: A, state: 'unknown', needs: 'load' } as const;
    await world.probes();
    await world.probes();
    assert.deepEqual(world.probed.sort(), [A, FILE]);
    const broken = world.write(withReplica(serving, half));
    assert.deepEqual(await world.probes(), [{ replica: FILE, answer: 'processed' }]);
    world.write(withReplica(broken, { replica: A, state: 'current' }));
    await world.probes();
    assert.deepEqual(world.probed.sort(), [A, A, FILE]);
  });

  test('asks nobody while none serves', async () => {
    const world = worker();
    world.write(withReplica(firstRecord([FILE]), { replica: FILE, state: 'unknown' }));
    assert.deepEqual(await world.probes(), []);
    assert.deepEqual(world.probed, []);
  });
});
