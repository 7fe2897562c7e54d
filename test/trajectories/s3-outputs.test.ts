/** Results on S3: whoever dies or comes late, what is named by metrics.json is each row once. */
import assert from 'node:assert/strict';
import { readFile, readdir } from 'node:fs/promises';
import path from 'node:path';
import type { TestContext } from 'node:test';
import { after, before, describe, test } from 'node:test';
import { tableFromIPC } from '@uwdata/flechette';
import type { Row } from '../../src/model/results/row.js';
import { writeJson } from '../../src/platform/json/kept.js';
import type { Bucket } from '../../src/platform/s3/bucket.js';
import { createBucket } from '../../src/platform/s3/bucket.js';
import { createS3Outputs } from '../../src/trajectories/s3/outputs.js';
import type {
  Outputs,
  PartPosition,
  StepOutputs,
} from '../../src/trajectories/trajectory-store.js';
import { closePart, expectedFiles, rowsOf, sequencesOf, writeRow } from '../fakes/closing.js';
import { faultOf, temporaryFolder } from '../fakes/temporary-store.js';
import type { S3Server } from '../harness/s3-server.js';
import { noS3, startS3 } from '../harness/s3-server.js';
import { row as plainRow } from '../python/arrow-rows.js';

const PARTS = [
  { first: 0, last: 9 },
  { first: 10, last: 14 },
];
const ROWS = rowsOf({ first: 0, last: 14 });
const [PART] = PARTS as [(typeof PARTS)[0]];
const isValid = (row: number): boolean => row % 3 !== 2;

interface Objects {
  epoch: string;
  rollouts: { key: string; rows: number; bytes: number }[];
  failures: { key: string }[];
  groups: { key: string }[];
  sequences: { key: string; rows: number }[];
}

describe('results on S3', { skip: noS3 }, () => {
  const ends: (() => unknown)[] = [];
  let s3: S3Server;
  before(async () => {
    s3 = await startS3({ after: (end) => void ends.push(end as () => unknown) });
  });
  after(async () => {
    for (const end of ends.reverse()) await end();
  });

  async function scene(t: TestContext): Promise<{ bucket: Bucket; attempt: () => Outputs }> {
    const bucket = createBucket(await s3.bucket('results')).below('batch');
    t.after(() => {
      s3.disturb(() => null);
      bucket.close();
    });
    // Small objects, so that there are many.
    const attempt = () =>
      createS3Outputs({ bucket, formats: ['jsonl', 'arrow'], object_bytes: 150 });
    return { bucket, attempt };
  }

  async function closed(outputs: StepOutputs): Promise<unknown> {
    for (const part of PARTS)
      if (!(await outputs.isClosed(part))) await closePart(outputs, { part });
    const summaries = await outputs.join(PARTS);
    await outputs.putGroupTable(['{"row":0}', '{"row":1}']);
    return await outputs.putMetrics({ counts: { completed: 10 }, summaries });
  }

  const objectsOf = async (bucket: Bucket): Promise<Objects> =>
    (JSON.parse((await bucket.get('metrics.json'))?.toString() ?? '') as { objects: Objects })
      .objects;

  const textOf = async (bucket: Bucket, objects: readonly { key: string }[]): Promise<string> =>
    (await Promise.all(objects.map(({ key }) => bucket.get(key)))).map(String).join('');

  const groupsAt = async (bucket: Bucket, places: string): Promise<{ objects: Objects }> =>
    JSON.parse((await bucket.get(`groups/0/${places}.json`))?.toString() ?? '') as {
      objects: Objects;
    };

  async function readAll(outputs: StepOutputs): Promise<string> {
    let text = '';
    for await (const line of outputs.readRollouts()) text += `${line}\n`;
    return text;
  }

  async function assertWhole(bucket: Bucket): Promise<Objects> {
    const objects = await objectsOf(bucket);
    const { rollouts, failures } = expectedFiles(ROWS);
    assert.equal(await textOf(bucket, objects.rollouts), rollouts);
    assert.equal(await textOf(bucket, objects.failures), failures);
    assert.equal(await textOf(bucket, objects.groups), '{"row":0}\n{"row":1}\n');
    const rows: unknown[] = [];
    for (const { key, rows: count } of objects.sequences) {
      const read = tableFromIPC((await bucket.get(key)) ?? Buffer.alloc(0)).toArray();
      assert.equal(read.length, count);
      rows.push(...(read as unknown[]));
    }
    assert.deepEqual(rows, ROWS.filter(isValid).flatMap(sequencesOf));
    return objects;
  }

  test('are objects that metrics.json names, with rows, sizes and hashes', async (t) => {
    const { bucket, attempt } = await scene(t);
    const outputs = attempt();
    const { summaries, ...result } = (await closed(outputs)) as { summaries: string[] };
    assert.deepEqual(
      [summaries, result],
      [expectedFiles(ROWS).summaries, { counts: { completed: 10 } }],
    );
    const objects = await assertWhole(bucket);
    assert.ok(objects.rollouts.length > 3, `${objects.rollouts.length} objects`);
    assert.equal(
      objects.rollouts.reduce((sum, { rows }) => sum + rows, 0),
      ROWS.filter(isValid).length,
    );
    assert.deepEqual(outputs.files, {
      rollouts: `${bucket.name}/metrics.json#rollouts`,
      failures: `${bucket.name}/metrics.json#failures`,
      groups: `${bucket.name}/metrics.json#groups`,
      metrics: `${bucket.name}/metrics.json`,
      sequences: `${bucket.name}/metrics.json#sequences`,
    });
    assert.equal(await readAll(attempt()), expectedFiles(ROWS).rollouts);
    assert.deepEqual(await attempt().readMetrics(), { counts: { completed: 10 }, summaries });
  });

  test('are exported whole, and an object that is missing leaves no file', async (t) => {
    const { bucket, attempt } = await scene(t);
    await closed(attempt());
    const completed = ROWS.filter(isValid).length;
    const folder = await temporaryFolder(t);
    const to = (name: string) => ({
      file: path.join(folder, name),
      format: 'jsonl' as const,
      completed,
    });
    await attempt().exportRollouts(to('rows.jsonl'));
    assert.equal(await readFile(to('rows.jsonl').file, 'utf8'), expectedFiles(ROWS).rollouts);
    await bucket.remove((await objectsOf(bucket)).rollouts[1]?.key ?? '');
    await assert.rejects(
      attempt().exportRollouts(to('fewer.jsonl')),
      faultOf('StoreFault', 'is missing'),
    );
    assert.deepEqual(await readdir(folder), ['rows.jsonl']);
  });

  test('are unread until all of them are there', async (t) => {
    const { attempt } = await scene(t);
    const outputs = attempt();
    assert.equal(await outputs.readMetrics(), null);
    await closePart(outputs, { part: PART });
    await assert.rejects(outputs.join(PARTS), faultOf('StoreFault', 'rows 10 to 14 of'));
    await assert.rejects(readAll(outputs), faultOf('StoreFault', 'got none'));
    assert.equal(await outputs.readMetrics(), null);
  });

  for (const rows of [0, 1, 4, 7, 10])
    test(`go on after an attempt that dies behind ${rows} rows, from what its heartbeat names`, async (t) => {
      const { bucket, attempt } = await scene(t);
      const dead = await attempt().openPart(PART, null);
      for (const row of rowsOf(PART).slice(0, rows)) await writeRow(dead, row);
      const resume: PartPosition = dead.position;
      const next = await attempt().openPart(PART, resume);
      assert.equal(next.position.written, resume.written);
      if (rows === 10) assert.ok(resume.written > 5, `only ${resume.written} rows`);
      for (const row of rowsOf(PART).slice(next.position.written)) await writeRow(next, row);
      await next.close();
      // The dead one was only slow.
      for (const row of rowsOf(PART).slice(rows)) await writeRow(dead, row);
      await dead.close();
      await closed(attempt());
      await assertWhole(bucket);
    });

  test('begin again where the heartbeat names what is not there', async (t) => {
    const { bucket, attempt } = await scene(t);
    const offsets = { rollouts: 9, failures: 9, summaries: 9, sequences: 9 };
    const writer = await closePart(attempt(), {
      part: PART,
      resume: { attempt: 'elsewhere', written: 5, offsets },
    });
    assert.equal(writer.position.written, 10);
    await closed(attempt());
    await assertWhole(bucket);
  });

  test('of an attempt that finishes later are the same: the first result stands', async (t) => {
    const { bucket, attempt } = await scene(t);
    const [late, early] = [attempt(), attempt()];
    const lateWriter = await late.openPart(PART, null);
    for (const row of rowsOf(PART)) await writeRow(lateWriter, row);
    await closed(early);
    const before = await objectsOf(bucket);
    await lateWriter.close();
    await closePart(late, { part: { first: 10, last: 14 } });
    await late.join(PARTS);
    await late.putGroupTable(['{"row":"late"}']);
    const standing = await late.putMetrics({ counts: { completed: -1 }, summaries: [] });
    assert.equal((standing as { counts: { completed: number } }).counts.completed, 10);
    assert.deepEqual(await assertWhole(bucket), before);
  });

  test('of an attempt from before a reopening do not count', async (t) => {
    const { bucket, attempt } = await scene(t);
    const zombie = attempt();
    await closePart(zombie, { part: PART });
    await attempt().reopen();
    await closePart(zombie, { part: { first: 10, last: 14 } }).catch(() => undefined);
    const now = attempt();
    for (const part of PARTS) assert.equal(await now.isClosed(part), false);
    await closePart(zombie, { part: PART });
    await zombie.join(PARTS);
    await zombie.putMetrics({ counts: { completed: -1 }, summaries: [] });
    await closed(now);
    assert.equal(
      ((await now.readMetrics()) as { counts: { completed: number } }).counts.completed,
      10,
    );
    await assertWhole(bucket);
    await attempt().reopen();
    assert.equal(await attempt().readMetrics(), null);
    assert.deepEqual(
      (await bucket.list('')).filter((key) => key !== 'epoch.json' && !key.startsWith('parts/0/')),
      [],
    );
  });

  test('that are another content than their manifest says are a StoreFault', async (t) => {
    const { bucket, attempt } = await scene(t);
    await closed(attempt());
    const { key, bytes } = (await objectsOf(bucket)).rollouts[1] ?? { key: '', bytes: 0 };
    await bucket.put(key, 'x'.repeat(bytes));
    const read = () => readAll(attempt());
    await assert.rejects(
      read,
      faultOf('StoreFault', `${key}: expected ${bytes} bytes with SHA-256`),
    );
    await bucket.remove(key);
    await assert.rejects(read, faultOf('StoreFault', `${key} is missing`));
  });

  test('leave nothing of attempts that were replaced', async (t) => {
    const { bucket, attempt } = await scene(t);
    for (let tries = 0; tries < 3; tries++) {
      const dead = await attempt().openPart(PART, null);
      for (const row of rowsOf(PART)) await writeRow(dead, row);
    }
    await closed(attempt());
    const { rollouts, failures, groups, sequences } = await assertWhole(bucket);
    const named = [...rollouts, ...failures, ...groups, ...sequences].map(({ key }) => key);
    const left = (await bucket.list('parts/')).filter((key) => !named.includes(key));
    assert.deepEqual(
      left.filter((key) => !/\/(part\.json|summaries-\d+\.jsonl)$/.test(key)),
      [],
    );
  });

  test('of a running batch’s groups are put once, whoever comes second', async (t) => {
    const { bucket } = await scene(t);
    const attempt = () => createS3Outputs({ bucket, formats: ['jsonl'], object_bytes: 150 });
    const lines = (tag: string) =>
      async function* () {
        for (let row = 0; row < 30; row++)
          yield await Promise.resolve(`{"row":${row},"by":"${tag}"}`);
      };
    const places = { from: 0, to: 3 };
    const files = await attempt().putGroups(places, lines('first'));
    assert.deepEqual(files, { file: `${bucket.name}/groups/0/0-3.json#rollouts` });
    assert.deepEqual(await attempt().putGroups(places, lines('second')), files);
    const { objects } = await groupsAt(bucket, '0-3');
    const text = await textOf(bucket, objects.rollouts);
    assert.equal(text.split('\n').length, 31);
    assert.ok(!text.includes('second'));
  });

  test('of a running batch’s groups have the valid ones in Arrow, of the attempt whose rows stand', async (t) => {
    const { bucket, attempt } = await scene(t);
    const rows = (tokens: number) =>
      async function* () {
        for (let row = 0; row < 9; row++)
          yield await Promise.resolve(
            writeJson({
              ...plainRow({ tokens }),
              rollout_id: `batch/${row}-0`,
              row,
              ...(isValid(row) ? {} : { failure: {} }),
            }),
          );
      };
    const places = { from: 4, to: 13 };
    // Both see that there is none.
    const both = await Promise.all(
      [3, 5].map((tokens) => attempt().putGroups(places, rows(tokens))),
    );
    assert.deepEqual(both[1], both[0]);
    const address = `${bucket.name}/groups/0/4-13.json`;
    assert.deepEqual(both[0], {
      file: `${address}#rollouts`,
      sequences: `${address}#sequences`,
      completed: 6,
    });
    const { objects } = await groupsAt(bucket, '4-13');
    const lines = (await textOf(bucket, objects.rollouts)).trimEnd().split('\n');
    const read: { rollout_id: string; input_ids: Int32Array }[] = [];
    for (const { key } of objects.sequences)
      read.push(
        ...(tableFromIPC((await bucket.get(key)) ?? Buffer.alloc(0)).toArray() as typeof read),
      );
    const valid = lines
      .map((line) => JSON.parse(line) as Row)
      .filter((row) => row.failure === undefined);
    assert.deepEqual(
      read.map(({ rollout_id }) => rollout_id),
      valid.map(({ rollout_id }) => rollout_id),
    );
    for (const [at, { input_ids }] of read.entries())
      assert.deepEqual(
        [...input_ids],
        valid[at]?.message_log.flatMap(({ token_ids }) => token_ids),
      );
    assert.ok(objects.sequences.length > 1);
  });

  test('of a step are gone when it is forgotten', async (t) => {
    const { bucket, attempt } = await scene(t);
    await closed(attempt());
    await attempt().forget();
    assert.deepEqual(await bucket.list(''), []);
    assert.equal(await attempt().readMetrics(), null);
  });

  test('are closed through a store that fails at every fifth request', async (t) => {
    const { bucket, attempt } = await scene(t);
    let count = 0;
    s3.disturb(({ method }) => {
      if (++count % 5 !== 0) return null;
      if (method === 'PUT' && count % 2 === 0) return 'lose the answer';
      return { answer: 503, code: 'SlowDown' };
    });
    await closed(attempt());
    s3.disturb(() => null);
    await assertWhole(bucket);
  });
});
