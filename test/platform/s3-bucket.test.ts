/** What an S3 store does to single writes: each is stored once and whole, or is an error. */
import assert from 'node:assert/strict';
import { after, before, describe, test } from 'node:test';
import type { Bucket } from '../../src/platform/s3/bucket.js';
import { createBucket } from '../../src/platform/s3/bucket.js';
import type { Disturbed, S3Server, Seen } from '../harness/s3-server.js';
import { noS3, PAGE, startS3 } from '../harness/s3-server.js';

describe('a bucket', { skip: noS3 }, () => {
  const ends: (() => unknown)[] = [];
  let s3: S3Server;
  before(async () => {
    s3 = await startS3({ after: (end) => void ends.push(end as () => unknown) });
  });
  after(async () => {
    for (const end of ends.reverse()) await end();
  });

  const opened = async (t: { after: (end: () => void) => void }): Promise<Bucket> => {
    const bucket = createBucket(await s3.bucket('team/results'));
    t.after(() => {
      s3.disturb(() => null);
      bucket.close();
    });
    return bucket;
  };
  /** The first object that is put, then none. */
  const disturbFirst = (how: Disturbed): void => {
    let left = 1;
    s3.disturb((seen) => (isPut(seen) && left-- > 0 ? how : null));
  };
  const isPut = ({ method }: Seen): boolean => method === 'PUT';

  test('keeps objects below its prefix, and lists and removes them', async (t) => {
    const bucket = await opened(t);
    assert.equal(await bucket.get('a/1'), null);
    await bucket.put('a/1', Buffer.from([0, 255, 128]));
    await bucket.below('a').put('2', 'text');
    assert.deepEqual(await bucket.get('a/1'), Buffer.from([0, 255, 128]));
    assert.deepEqual((await bucket.list('a/')).sort(), ['a/1', 'a/2']);
    assert.deepEqual(await bucket.below('a').list(''), ['1', '2']);
    assert.match(bucket.below('a').name, /^s3:\/\/bucket-\d+-\d+\/team\/results\/a$/);
    await bucket.remove('a/1');
    assert.deepEqual(await bucket.list(''), ['a/2']);
  });

  test('takes what is put once from the first of two writers', async (t) => {
    const bucket = await opened(t);
    const done = await Promise.all(['x', 'y', 'z'].map((text) => bucket.putOnce('fact', text)));
    const winner = ['x', 'y', 'z'][done.indexOf(true)];
    assert.equal(done.filter(Boolean).length, 1);
    assert.equal((await bucket.get('fact'))?.toString(), winner);
    assert.equal(await bucket.putOnce('fact', winner ?? ''), false, 'another writer of the same');
  });

  test('says true to a writer whose own answer was lost (412)', async (t) => {
    const bucket = await opened(t);
    disturbFirst('lose the answer');
    assert.equal(await bucket.putOnce('fact', 'mine'), true);
    assert.equal((await bucket.get('fact'))?.toString(), 'mine');
  });

  for (const [name, how] of [
    ['a conflict (409)', { answer: 409, code: 'ConditionalRequestConflict' }],
    ['an overload (503)', { answer: 503, code: 'ServiceUnavailable' }],
    ['SlowDown with status 200', { answer: 200, code: 'SlowDown' }],
    ['a token that has run out', { answer: 400, code: 'ExpiredToken' }],
  ] as const)
    for (const put of ['put', 'putOnce'] as const)
      test(`${put} again after ${name}, and the object is there`, async (t) => {
        const bucket = await opened(t);
        disturbFirst(how);
        await bucket[put]('one', 'text').catch((error: unknown) => {
          // Only conditional writes have conflicts.
          if (put === 'putOnce' || how.answer !== 409) throw error;
        });
        const isThere = put === 'putOnce' || how.answer !== 409;
        assert.equal((await bucket.get('one'))?.toString(), isThere ? 'text' : undefined);
      });

  test('has nothing of an upload that was cut, and all of it after the next try', async (t) => {
    const bucket = await opened(t);
    const body = Buffer.alloc(3_000_000, 'x');
    disturbFirst('cut the request');
    await bucket.put('large', body);
    assert.deepEqual(await bucket.get('large'), body);
    s3.disturb((seen) => (isPut(seen) ? { answer: 500, code: 'InternalError' } : null));
    await assert.rejects(
      bucket.put('other', body),
      /^Error: bucket \S+: InternalError|InternalError: bucket/,
    );
    s3.disturb(() => null);
    assert.equal(await bucket.get('other'), null);
  });

  test('downloads again what broke off, and gives no part of it', async (t) => {
    const bucket = await opened(t);
    const body = Buffer.alloc(3_000_000, 'x');
    await bucket.put('large', body);
    let left = 2;
    s3.disturb(({ method }) => (method === 'GET' && left-- > 0 ? 'cut the answer' : null));
    assert.deepEqual(await bucket.get('large'), body);
    assert.ok(left < 0, 'nothing was cut');
    left = 1;
    const pieces: Buffer[] = [];
    for await (const piece of bucket.read('large')) pieces.push(piece);
    assert.deepEqual(Buffer.concat(pieces), body);
    assert.ok(left < 0, 'nothing was cut');
  });

  for (const [name, how] of [
    ['whose answer never begins', { until: new Promise<void>(() => undefined) }],
    ['whose answer stops in its middle', 'stall the answer'],
  ] as const)
    test(`asks again over a connection that is silent: for an object ${name}`, async (t) => {
      const settings = await s3.bucket();
      const bucket = createBucket(settings, { silent_ms: 3000 });
      t.after(() => {
        s3.disturb(() => null);
        bucket.close();
      });
      const body = Buffer.alloc(3_000_000, 'x');
      await bucket.put('large', body);
      let left = 1;
      s3.disturb(({ method }) => (method === 'GET' && left-- > 0 ? how : null));
      assert.deepEqual(await bucket.get('large'), body);
      assert.ok(left < 0, 'nothing was asked twice');
    });

  test('that is missing is an error with its name, not a missing object', async (t) => {
    const settings = { ...(await s3.bucket()), bucket: 'no-such-bucket' };
    const bucket = createBucket(settings);
    t.after(bucket.close);
    await assert.rejects(bucket.get('a'), /bucket no-such-bucket: NoSuchBucket/);
    await assert.rejects(bucket.putOnce('a', 'b'), /bucket no-such-bucket: NoSuchBucket/);
  });

  test('lists more objects than one page has', async (t) => {
    const bucket = await opened(t);
    const keys = Array.from({ length: 2 * PAGE + 1 }, (_, at) => `many/${at + 10}`);
    for (const key of keys) await bucket.put(key, 'x');
    assert.deepEqual(await bucket.list('many/'), keys);
  });
});
