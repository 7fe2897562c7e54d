/** Results on S3, read by the package as a trainer reads them. */
import assert from 'node:assert/strict';
import { mkdir, writeFile } from 'node:fs/promises';
import path from 'node:path';
import type { TestContext } from 'node:test';
import { after, before, describe, test } from 'node:test';
import { arrowRows } from '../../src/model/results/arrow/rows.js';
import type { Row } from '../../src/model/results/row.js';
import { writeJson } from '../../src/platform/json/kept.js';
import type { Bucket } from '../../src/platform/s3/bucket.js';
import { createBucket } from '../../src/platform/s3/bucket.js';
import { createS3Outputs } from '../../src/trajectories/s3/outputs.js';
import type { StepOutputs } from '../../src/trajectories/trajectory-store.js';
import { temporaryFolder } from '../fakes/temporary-store.js';
import type { AskedPython } from '../harness/python-asked.js';
import { startAsked } from '../harness/python-asked.js';
import type { S3Server } from '../harness/s3-server.js';
import { noS3, startS3 } from '../harness/s3-server.js';
import { row as plainRow } from './arrow-rows.js';

const PART = { first: 0, last: 9 };

interface Said {
  rows?: string[];
  failures?: string[];
  groups?: number;
  sequences?: number;
  step?: number | null;
  fault?: string;
  message?: string;
  step_fault?: string;
}

describe('a trainer', { skip: noS3 }, () => {
  const ends: (() => unknown)[] = [];
  let s3: S3Server;
  let python: AskedPython;
  before(async () => {
    s3 = await startS3({ after: (end) => void ends.push(end as () => unknown) });
    python = startAsked('s3_rows.py', { AWS_ENDPOINT_URL_S3: s3.endpoint });
    ends.push(python.end);
  });
  after(async () => {
    for (const end of ends.reverse()) await end();
  });

  async function closed(
    t: TestContext,
  ): Promise<{ bucket: Bucket; outputs: StepOutputs; rows: Row[]; result: object }> {
    const bucket = createBucket(await s3.bucket('team')).below('stream/steps/0');
    t.after(() => {
      bucket.close();
    });
    const outputs = createS3Outputs({ bucket, formats: ['jsonl', 'arrow'], object_bytes: 20_000 });
    const rows = Array.from({ length: 10 }, (_, at) => ({
      ...plainRow({ tokens: 50 + at * 30 }),
      ...{ rollout_id: `batch/${at}-0`, row: at },
    }));
    const writer = await outputs.openPart(PART, null);
    for (const [at, row] of rows.entries())
      await writer.write({
        row: writeJson(row),
        summary: JSON.stringify({ at }),
        valid: true,
        sequences: () => arrowRows(row),
      });
    await writer.close();
    await outputs.join([PART]);
    await outputs.putGroupTable(['{"row":0}']);
    const counts = { completed: rows.length, failed: 0, timed_out: 0, stopped: 0, cancelled: 0 };
    const result = await outputs.putMetrics({ step: 0, files: outputs.files, counts });
    return { bucket, outputs, rows, result };
  }

  // Not synchronously: the proxy of the server is in this process.
  const read = async (result: object): Promise<Said> => (await python.ask(result)) as Said;

  test('reads rows and sequences of many objects, and they are equal', async (t) => {
    const { bucket, rows, result } = await closed(t);
    const said = await read(result);
    assert.deepEqual(said, {
      rows: rows.map(({ rollout_id }) => rollout_id),
      ...{ failures: [], groups: 1, sequences: 10, step: 0 },
    });
    assert.ok((await bucket.list('parts/')).filter((key) => key.endsWith('.arrow')).length > 2);
  });

  test('reads objects again whose download broke off', async (t) => {
    const { rows, result } = await closed(t);
    let cut = 0;
    s3.disturb(({ method }) => (method === 'GET' && ++cut % 3 === 0 ? 'cut the answer' : null));
    const said = await read(result);
    s3.disturb(() => null);
    assert.deepEqual(
      said.rows,
      rows.map(({ rollout_id }) => rollout_id),
    );
    assert.ok(cut > 6, `${cut} downloads`);
  });

  test('reads a copy of such a folder on a disk', async (t) => {
    const { bucket, rows, outputs, result } = await closed(t);
    const folder = path.join(await temporaryFolder(t), 'steps', '0');
    for (const key of await bucket.list('')) {
      await mkdir(path.dirname(path.join(folder, key)), { recursive: true });
      await writeFile(path.join(folder, key), (await bucket.get(key)) ?? '');
    }
    const files = Object.fromEntries(
      Object.entries(outputs.files).map(([kind, file]) => [
        kind,
        String(file).replace(bucket.name, folder),
      ]),
    );
    const said = await read({ ...result, files });
    assert.deepEqual(
      said.rows,
      rows.map(({ rollout_id }) => rollout_id),
    );
  });

  for (const [name, spoil] of [
    ['is missing', (bucket: Bucket, key: string) => bucket.remove(key)],
    ['has another content', (bucket: Bucket, key: string) => bucket.put(key, 'other')],
    [
      'was cut',
      async (bucket: Bucket, key: string) =>
        bucket.put(key, ((await bucket.get(key)) ?? Buffer.alloc(0)).subarray(0, -9)),
    ],
  ] as const)
    for (const extension of ['jsonl', 'arrow'])
      test(`is told of an object (${extension}) that ${name}, and gets no fewer rows`, async (t) => {
        const { bucket, result } = await closed(t);
        const keys = await bucket.list('parts/');
        const key =
          keys.find((one) => /\/(rollouts|sequences)-/.test(one) && one.endsWith(extension)) ?? '';
        await spoil(bucket, key);
        const { fault, message = '' } = await read(result);
        assert.equal(fault, 'StoreFault');
        assert.ok(message.startsWith(`${bucket.name}/${key}: expected `), message);
      });

  test('is told that a step was forgotten', async (t) => {
    const { outputs, result } = await closed(t);
    await outputs.forget();
    const said = await read(result);
    assert.deepEqual(
      [said.fault, said.step, said.step_fault],
      ['FileNotFoundError', null, 'StepOutOfOrder'],
    );
  });

  test('is told of a bucket that is missing by its name', async (t) => {
    const { result } = await closed(t);
    const text = JSON.stringify(result).replaceAll(/s3:\/\/bucket-[\d-]+/g, 's3://no-such-bucket');
    const { fault, message = '' } = await read(JSON.parse(text) as object);
    assert.deepEqual([fault, message.includes('NoSuchBucket')], ['OSError', true]);
  });
});
