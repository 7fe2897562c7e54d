import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import fc from 'fast-check';
import { servicesOf, workerIdentity } from '../../src/platform/pollers.js';

const PLACE = { pid: 12, host: 'host' };
const QUEUE = { namespace: 'ns', name: 'q' };

/** A server on which workers of these identities poll. */
const serverWith = (...identities: string[]) => ({
  describeTaskQueue: (question: { namespace: string; taskQueue: { name: string } }) => {
    const { namespace, taskQueue } = question;
    assert.deepEqual({ namespace, name: taskQueue.name }, QUEUE);
    return Promise.resolve({ pollers: identities.map((identity) => ({ identity })) });
  },
});

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
