/** What `check` says of a bucket for results, and which settings of one are refused. */
import assert from 'node:assert/strict';
import { after, before, describe, test } from 'node:test';
import { createBucket } from '../../src/platform/s3/bucket.js';
import { checkStore } from '../../src/workers/check/check-store.js';
import { Config } from '../../src/workers/config.js';
import { outputSettings, outputsRoot } from '../../src/workers/open-store.js';
import type { S3Server } from '../harness/s3-server.js';
import { noS3, startS3 } from '../harness/s3-server.js';

const configOf = (outputs: object): Config =>
  Config.parse({
    store: { kind: 'postgres', url_env: 'DATABASE', outputs },
    environments: {},
  });

describe('a bucket for results', { skip: noS3 }, () => {
  const ends: (() => unknown)[] = [];
  let s3: S3Server;
  before(async () => {
    s3 = await startS3({ after: (end) => void ends.push(end as () => unknown) });
  });
  after(async () => {
    for (const end of ends.reverse()) await end();
  });

  const checked = async (bucket: string) => {
    const outputs = { kind: 's3', bucket, prefix: 'team', endpoint_env: 'S3' };
    // The database is a finding of its own.
    const env = { S3: s3.endpoint };
    const found = await checkStore(configOf(outputs), { env, file: undefined });
    return found.find(({ part }) => part === `store outputs s3://${bucket}/team`);
  };

  test('that keeps what was put once is ok, and nothing of the try stays', async (t) => {
    const settings = await s3.bucket('team');
    const found = await checked(settings.bucket);
    assert.deepEqual(
      [found?.state, found?.what],
      ['ok', 'can be written, and keeps what was put once'],
    );
    const bucket = createBucket(settings);
    t.after(bucket.close);
    assert.deepEqual(await bucket.list(''), []);
  });

  test('of a store without conditional writes is broken, and says why', async (t) => {
    const { bucket } = await s3.bucket();
    t.after(() => {
      s3.disturb(() => null);
    });
    s3.disturb(() => 'ignore the condition');
    const { state, what } = (await checked(bucket)) ?? {};
    assert.equal(state, 'broken');
    assert.match(what ?? '', /got it accepted\. The store ignores If-None-Match/);
  });

  test('that is missing is broken, with its name', async () => {
    const { state, what, remedy } = (await checked('no-such-bucket')) ?? {};
    assert.equal(state, 'broken');
    assert.match(what ?? '', /bucket no-such-bucket: NoSuchBucket/);
    assert.match(remedy ?? '', /credentials that may list, get, put and delete/);
  });
});

describe('settings of results in a bucket', () => {
  const refused = (outputs: object): string => {
    const parsed = Config.safeParse({
      store: { kind: 'postgres', url_env: 'D', outputs },
      environments: {},
    });
    return (
      parsed.error?.issues.map(({ path, message }) => `${path.join('.')}: ${message}`).join('\n') ??
      ''
    );
  };

  test('need a bucket with kind s3, and none otherwise', () => {
    assert.equal(
      refused({ kind: 's3' }),
      'store.outputs.bucket: expected a bucket with kind s3, got none',
    );
    assert.equal(
      refused({ bucket: 'my-team' }),
      'store.outputs.bucket: expected no bucket with kind file, got my-team',
    );
    assert.equal(refused({ kind: 's3', bucket: 'my-team', prefix: 'a/b' }), '');
  });

  test('refuse a folder', () => {
    assert.equal(
      refused({ kind: 's3', bucket: 'my-team', root: 'x' }),
      'store.outputs.root: expected none with kind s3 (bucket and prefix say where), got x',
    );
  });

  test('refuse prefixes that are no names with slashes between', () => {
    for (const prefix of ['/a', 'a/', 'a//b', 'a b', '../a#'])
      assert.match(
        refused({ kind: 's3', bucket: 'my-team', prefix }),
        /store\.outputs\.prefix: expected names/,
      );
  });

  test('say where results are, and refuse an endpoint that is no URL by its variable', () => {
    const config = configOf({ kind: 's3', bucket: 'my-team', prefix: 'a/b', endpoint_env: 'S3' });
    assert.equal(outputsRoot(config), 's3://my-team/a/b');
    const { store } = config;
    assert.ok(store.kind === 'postgres');
    assert.deepEqual(outputSettings(store.outputs, { S3: 'http://minio:9000' }), {
      ...{ kind: 's3', bucket: 'my-team', prefix: 'a/b', formats: ['jsonl'] },
      endpoint: 'http://minio:9000',
    });
    assert.throws(
      () => outputSettings(store.outputs, {}),
      /endpoint_env: S3: expected a URL such as .*, got nothing/,
    );
  });
});
