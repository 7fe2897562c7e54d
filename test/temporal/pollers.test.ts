import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import fc from 'fast-check';
import { livingWorkers, namedIn, servicesOf, workerIdentity } from '../../src/temporal/pollers.js';

const PLACE = { pid: 12, host: 'host', store: null, results: null };
const QUEUE = { namespace: 'ns', name: 'q' };

/** A server on which workers of these identities poll. */
const serverWith = (...identities: string[]) =>
  ({
    describeTaskQueue: (question: { namespace: string; taskQueue: { name: string } }) => {
      const { namespace, taskQueue } = question;
      assert.deepEqual({ namespace, name: taskQueue.name }, QUEUE);
      return Promise.resolve({ pollers: identities.map((identity) => ({ identity })) });
    },
  }) as never;

describe('generation services of the workers of a task queue', () => {
  test('are those in their identities, whatever their names', async () => {
    const names = fc.uniqueArray(fc.string({ minLength: 1, maxLength: 8, unit: 'grapheme' }), {
      maxLength: 3,
    });
    await fc.assert(
      fc.asyncProperty(names, names, async (some, others) => {
        const identities = [some, others].map((services) => workerIdentity(PLACE, services));
        fc.pre(identities.every((identity) => identity.includes('/')));
        const known = await servicesOf(serverWith(...identities), QUEUE);
        assert.deepEqual(known, [...new Set([...some, ...others])].toSorted());
      }),
    );
  });

  test('are not known where none runs, or one does not say', async () => {
    assert.equal(await servicesOf(serverWith(), QUEUE), null);
    const older = serverWith(workerIdentity(PLACE, ['a']), '12@host');
    assert.equal(await servicesOf(older, QUEUE), null);
    const many = Array.from({ length: 40 }, (_, i) => `service-${i}`);
    assert.equal(workerIdentity(PLACE, many), '12@host', 'histories would keep them');
    assert.deepEqual(await servicesOf(serverWith(workerIdentity(PLACE, [])), QUEUE), []);
  });
});

describe('the identity of a worker', () => {
  test('tells its store and its folder of results, beside its services', async () => {
    const ids = { store: '0123456789ab', results: 'ba9876543210' };
    const identity = workerIdentity({ ...PLACE, ...ids }, ['a/store=ff']);
    assert.deepEqual(namedIn(identity), { worker: '12@host', ...ids });
    assert.deepEqual(await servicesOf(serverWith(identity), QUEUE), ['a/store=ff']);
    const none = { worker: '12@host', store: null, results: null };
    for (const other of [workerIdentity(PLACE, null), '12@host', workerIdentity(PLACE, ['a'])])
      assert.deepEqual(namedIn(other), none);
  });
});

describe('a worker of a task queue', () => {
  /** Ages, in seconds by the server's clock or its own. */
  const living = async (workers: Record<string, { asked?: number; reported?: number }>) => {
    const now_s = Math.round(Date.now() / 1000);
    const at = (age: number) => ({ seconds: now_s - age });
    const entries = Object.entries(workers);
    const server = {
      describeTaskQueue: () =>
        Promise.resolve({
          pollers: entries.flatMap(([identity, { asked }]) =>
            asked === undefined ? [] : [{ identity, lastAccessTime: at(asked) }],
          ),
        }),
      listWorkers: () =>
        Promise.resolve({
          workersInfo: entries.flatMap(([workerIdentity, { reported }]) =>
            reported === undefined
              ? []
              : [{ workerHeartbeat: { workerIdentity, heartbeatTime: at(reported) } }],
          ),
        }),
    };
    const found = await livingWorkers(server as never, { ...QUEUE, type: 'activity' });
    return found.map(({ identity, seen }) => [identity, now_s - seen]);
  };

  test('lives while it reports, and does not any more once its reports are late', async () => {
    const workers = { lives: { asked: 50, reported: 9 }, died: { asked: 45, reported: 40 } };
    assert.deepEqual(await living(workers), [['lives', 9]]);
  });

  test('that only asks lives where none reports', async () => {
    assert.deepEqual(await living({ a: { asked: 59 }, b: { asked: 90 } }), [['a', 59]]);
    assert.deepEqual(await living({ stopped: { asked: 9 }, lives: { reported: 1 } }), [
      ['lives', 1],
    ]);
  });

  test('whose clock is an hour off lives by what it asks, by the clock of the server', async () => {
    for (const reported of [3600, -3600])
      assert.deepEqual(await living({ skewed: { asked: 50, reported } }), [['skewed', 50]]);
    assert.deepEqual(await living({ skewed: { asked: 80, reported: -3600 } }), []);
  });
});
