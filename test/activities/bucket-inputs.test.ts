/** Samples and checkpoints in a bucket: what requests may name there, and what is said of the rest. */
import assert from 'node:assert/strict';
import { execFile } from 'node:child_process';
import path from 'node:path';
import { after, before, describe, test } from 'node:test';
import type { TestContext } from 'node:test';
import { promisify } from 'node:util';
import { readSamples } from '../../src/activities/plan/read-samples.js';
import { lookAt } from '../../src/activities/policy/weight-files.js';
import { PYTHON_PACKAGES as PYTHON } from '../../dev/trainer-example.js';
import { isOther } from '../../src/model/policy/target.js';
import { createBucket } from '../../src/platform/s3/bucket.js';
import { activityBench } from '../fakes/activity-bench.js';
import { faultOf, requestOf, sampleOf } from '../fakes/temporary-store.js';
import { install } from '../harness/python-package.js';
import type { S3Server } from '../harness/s3-server.js';
import { noS3, startS3 } from '../harness/s3-server.js';

const TOKEN = '0123456789abcdef0123456789abcdef';
const refused = (...texts: (RegExp | string)[]) => faultOf('InvalidBatchRequest', ...texts);

describe('in a bucket', { skip: noS3 }, () => {
  const ends: (() => unknown)[] = [];
  let s3: S3Server;
  before(async () => {
    s3 = await startS3({ after: (end) => void ends.push(end as () => unknown) });
    process.env['AWS_ENDPOINT_URL_S3'] = s3.endpoint;
  });
  after(async () => {
    delete process.env['AWS_ENDPOINT_URL_S3'];
    for (const end of ends.reverse()) await end();
  });

  async function inputs(t: TestContext) {
    const bucket = createBucket(await s3.bucket('team/inputs'));
    t.after(() => {
      s3.disturb(() => null);
      bucket.close();
    });
    const bench = await activityBench(t, {
      deployment: { inputs_dir: bucket.name, sample_bytes: 2 ** 25 },
    });
    const read = async (file: string): Promise<string[]> =>
      (await readSamples(requestOf({ samples: { path: file }, limit: null }), bench.dependencies))
        .samples;
    return { bucket, bench, read };
  }

  test('samples are read by a key below inputs_dir, or by a whole address', async (t) => {
    const { bucket, read } = await inputs(t);
    const rows = [sampleOf('é漢😀'), sampleOf('second')];
    await bucket.put('run/a.jsonl', `${rows.join('\n')}\n`);
    assert.deepEqual(await read('run/a.jsonl'), rows);
    assert.deepEqual(await read(`${bucket.name}/run/a.jsonl`), rows);
  });

  test('no request reaches other objects', async (t) => {
    const { bucket, read } = await inputs(t);
    const outside = bucket.name.replace(/inputs$/, 'secret.jsonl');
    for (const name of [
      outside,
      `${bucket.name}/../secret.jsonl`,
      '../secret.jsonl',
      './a',
      'a//b',
      's3://other/a.jsonl',
    ])
      await assert.rejects(
        read(name),
        refused(/^samples\.path: expected an object below inputs_dir, got /),
      );
    assert.deepEqual(
      s3.requests.filter((one) => one.includes('secret')),
      [],
    );
  });

  test('an object that is missing, torn or empty is a request to correct, by its name', async (t) => {
    const { bucket, read } = await inputs(t);
    await assert.rejects(
      read('none.jsonl'),
      refused(
        /cannot read "none\.jsonl" below inputs_dir: bucket \S+: there is no object team\/inputs\/none\.jsonl/,
      ),
    );
    await bucket.put('torn.jsonl', Buffer.from([0x7b, 0xff, 0x0a]));
    await assert.rejects(read('torn.jsonl'), refused(/line 1 of torn\.jsonl: /));
    await bucket.put('empty.jsonl', '');
    await assert.rejects(read('empty.jsonl'), refused('expected at least one sample'));
  });

  test('one that is replaced while it is read is read anew, never mixed', async (t) => {
    const { bucket, read } = await inputs(t);
    const rowsOf = (name: string): string[] =>
      Array.from({ length: 9 }, (_, at) => sampleOf(`${name}${at} ${'x'.repeat(2 ** 20)}`));
    await bucket.put('a.jsonl', rowsOf('old').join('\n'));
    let pieces = 0;
    let replaced: Promise<void> | null = null;
    s3.disturb(({ method, headers }) => {
      if (method !== 'GET' || headers.range === undefined || pieces++ !== 1) return null;
      replaced = bucket.put('a.jsonl', rowsOf('new').join('\n'));
      return { until: replaced };
    });
    await assert.rejects(
      read('a.jsonl'),
      faultOf('StoreFault', /cannot read "a\.jsonl" .*PreconditionFailed/),
    );
    assert.deepEqual(await read('a.jsonl'), rowsOf('new'));
  });

  test('a bucket that does not answer is a fault that passes', async (t) => {
    const { read } = await inputs(t);
    s3.disturb(() => ({ answer: 503, code: 'ServiceUnavailable' }));
    await assert.rejects(read('a.jsonl'), faultOf('StoreFault', /cannot read "a\.jsonl"/));
  });

  test('a client that may put there puts many samples once, and a worker reads them', async (t) => {
    const { bucket, bench, read } = await inputs(t);
    const python = async (...args: string[]): Promise<Record<string, unknown>> => {
      const env = { ...process.env, PYTHONPATH: PYTHON, PYTHONDONTWRITEBYTECODE: '1' };
      const script = path.join(PYTHON, 'tests', 's3_samples.py');
      const { stdout } = await promisify(execFile)(install.python, [script, ...args], { env });
      return JSON.parse(stdout) as Record<string, unknown>;
    };
    const sees = async (): Promise<boolean> =>
      (await bench.result('findInputs', { token: TOKEN })).sees;
    assert.equal(await sees(), false);
    await python('token', bucket.name, TOKEN);
    assert.equal(await sees(), true);
    const put = await python('put', bucket.name, '3000');
    assert.deepEqual([put['samples'], put['is_new']], [3000, true]);
    const file = String(put['file']);
    assert.match(file, /^s3:\/\/\S+\/team\/inputs\/\.samples\/[0-9a-f]{64}\.jsonl$/);
    assert.equal((await read(file)).length, 3000);
    assert.deepEqual(await python('put', bucket.name, '3000'), { ...put, is_new: false });
  });

  test('a checkpoint is other files once an object has another content, or is gone', async (t) => {
    const { bucket } = await inputs(t);
    const seen = async () => {
      const { files, why } = await lookAt(`${bucket.name}/step-1`);
      assert.ok(files !== null, why ?? '');
      return files;
    };
    await bucket.put('step-1/model-1.safetensors', 'weights');
    await bucket.put('step-1/model-2.safetensors', 'more');
    const first = await seen();
    assert.deepEqual([first.bytes, first.whole], ['weightsmore'.length, true]);
    await bucket.put('step-1/trainer_state.json', '{}');
    await bucket.put('step-1/optimizer/model-9.safetensors', 'x');
    assert.equal(isOther(first, await seen()), false);
    await bucket.put('step-1/model-2.safetensors', 'MORE');
    assert.equal(isOther(first, await seen()), true);
    await bucket.remove('step-1/model-2.safetensors');
    assert.equal(isOther(first, await seen()), true);
    assert.match((await lookAt(`${bucket.name}/none`)).why ?? '', /without \.safetensors/);
    assert.match((await lookAt('s3://no-such-bucket/a')).why ?? '', /NoSuchBucket/);
  });
});
