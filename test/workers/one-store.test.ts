import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import { hostname } from 'node:os';
import { describe, test } from 'node:test';
import type { StoreIds } from '../../src/trajectories/trajectory-store.js';
import { workerIdentity } from '../../src/temporal/pollers.js';
import { Config } from '../../src/workers/config.js';
import type { OtherStore } from '../../src/workers/one-store.js';
import { findOtherStores, waitForOneStore } from '../../src/workers/one-store.js';

const [OURS, THEIRS] = ['0123456789ab', 'ba9876543210'];
const WORKER = { pid: 12, host: 'other' };
const config = Config.parse({
  environments: { own: { kind: 'http', url: 'http://127.0.0.1:9', task_queue: 'slow' } },
  store: { kind: 'file', root: '/data' },
});
const own = { store: OURS, results: null, name: '/data' };

/** A server on which one such worker of a task queue reported just now. */
function serverWith(queue: string, ids: StoreIds) {
  const workerHeartbeat = {
    heartbeatTime: { seconds: Math.round(Date.now() / 1000) },
    workerIdentity: workerIdentity({ ...WORKER, ...ids }, null),
  };
  return {
    describeTaskQueue: () => Promise.resolve({ pollers: [] }),
    listWorkers: ({ query }: { query: string }) =>
      Promise.resolve({
        workersInfo: query.includes(`TaskQueue = '${queue}'`) ? [{ workerHeartbeat }] : [],
      }),
  };
}

const found = async (
  queue: string,
  { mine = {}, ...ids }: Partial<StoreIds> & { mine?: Partial<StoreIds> },
): Promise<string[]> => {
  const server = serverWith(queue, { store: null, results: null, ...ids });
  const both = { config, namespace: 'ns', own: { ...own, ...mine } };
  return (await findOtherStores(server as never, both)).map(({ what }) => what);
};

describe('workers of one deployment', () => {
  test('with another store are named, on whichever of its task queues they are', async () => {
    for (const queue of ['rollouts', 'rollouts-generation', 'slow'])
      assert.deepEqual(await found(queue, { store: THEIRS }), [
        `worker 12@other of task queue ${queue} has another store (id ${THEIRS}) than /data (id ${OURS})`,
      ]);
  });

  test('have another store than one that nobody has used yet', async () => {
    const [said] = await found('rollouts', { store: THEIRS, mine: { store: null } });
    assert.match(said ?? '', /than \/data \(which no worker has used yet\)$/);
  });

  test('that only asked for tasks, and whose process of this host has ended, are not named', async () => {
    const polled = async (pid: number, host: string): Promise<number> => {
      const ids = { store: THEIRS, results: null };
      const identity = workerIdentity({ pid, host, ...ids }, null);
      const lastAccessTime = { seconds: Math.round(Date.now() / 1000) };
      const server = {
        describeTaskQueue: () => Promise.resolve({ pollers: [{ identity, lastAccessTime }] }),
        listWorkers: () => Promise.resolve({ workersInfo: [] }),
      };
      return (await findOtherStores(server as never, { config, namespace: 'ns', own })).length;
    };
    const ended = spawnSync('true').pid;
    assert.equal(await polled(ended, hostname()), 0);
    assert.equal(await polled(process.pid, hostname()), 0, 'of a container before its restart');
    assert.equal(await polled(process.ppid, hostname()), 3);
    assert.equal(await polled(ended, 'other'), 3);
  });

  test('with the same store, or that do not tell theirs, are not named', async () => {
    assert.deepEqual(await found('rollouts', { store: OURS }), []);
    assert.deepEqual(await found('rollouts', {}), []);
    assert.deepEqual(await found('another', { store: THEIRS }), []);
  });

  test('with the same database and another folder of results are named', async () => {
    const mine = { results: 'aaaaaaaaaaaa' };
    const [said] = await found('rollouts', { store: OURS, results: THEIRS, mine });
    assert.match(
      said ?? '',
      /another place of results \(id ba9876543210\) than \/data \(id a{12}\)$/,
    );
    assert.deepEqual(await found('rollouts', { store: OURS, results: THEIRS }), []);
  });
});

describe('a worker that starts', () => {
  const other = (seen: number): OtherStore => ({
    queue: 'rollouts',
    seen,
    what: 'worker 12@other has another store',
    remedy: 'give both one',
  });
  /** Waits, while the server shows these workers one after the other. */
  const wait = async (looks: (OtherStore[] | Error)[]) => {
    const said: string[] = [];
    const log = {
      warn: (line: unknown) => said.push(String(line)),
      debug: () => undefined,
    } as Parameters<typeof waitForOneStore>[1]['log'];
    const signal = AbortSignal.timeout(60_000);
    let at = 0;
    const look = (): Promise<OtherStore[]> => {
      const seen = looks[at++];
      assert.ok(seen, 'it looks no more often');
      return seen instanceof Error ? Promise.reject(seen) : Promise.resolve(seen);
    };
    await waitForOneStore(look, { log, signal, again_ms: 1 });
    assert.equal(at, looks.length);
    return said;
  };

  test('waits until one with another store has stopped, and says so once', async () => {
    const said = await wait([[other(1)], [other(1)], []]);
    assert.deepEqual(said, [
      'waiting until it has stopped: worker 12@other has another store: give both one',
    ]);
  });

  test('ends with the reason if that one lives', async () => {
    await assert.rejects(wait([[other(1)], [other(1)], [other(2)]]), {
      message: 'worker 12@other has another store: give both one',
    });
  });

  test('starts where the server does not say who its workers are', async () => {
    assert.deepEqual(await wait([new Error('12 UNIMPLEMENTED')]), []);
  });
});
