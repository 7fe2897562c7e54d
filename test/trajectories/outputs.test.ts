import assert from 'node:assert/strict';
import { existsSync } from 'node:fs';
import { mkdir, readFile, readdir, stat } from 'node:fs/promises';
import path from 'node:path';
import { describe, test } from 'node:test';
import { closePart, expectedFiles, joinedFiles, rowsOf, writeRow } from '../fakes/closing.js';
import { hearSyncs } from '../fakes/synced.js';
import { BATCH, faultOf, requestOf, sampleOf, temporaryStore } from '../fakes/temporary-store.js';
import type { TemporaryStore } from '../fakes/temporary-store.js';

async function outputsOf({ store }: Pick<TemporaryStore, 'store'>) {
  await store.createBatch({ batch_id: BATCH, request: requestOf(), samples: [sampleOf('x')] });
  return store.outputs(BATCH);
}
const PART = { first: 0, last: 9 };

describe('a part', () => {
  test('is closed once its rows have their final names, valid ones apart from the others', async (t) => {
    const outputs = await outputsOf(await temporaryStore(t));
    assert.equal(await outputs.isClosed(PART), false);
    const writer = await outputs.openPart(PART, null);
    for (const row of rowsOf(PART)) await writeRow(writer, row);
    assert.equal(await outputs.isClosed(PART), false);
    await writer.close();
    assert.equal(await outputs.isClosed(PART), true);
    assert.deepEqual(await joinedFiles(outputs, [PART]), expectedFiles(rowsOf(PART)));
  });

  test('has each of its files synced before that has its final name, and the names behind them', async (t) => {
    const files = await temporaryStore(t);
    const outputs = await outputsOf(files);
    const writer = await outputs.openPart(PART, null);
    for (const row of rowsOf(PART)) await writeRow(writer, row);
    const [part = ''] = await readdir(path.join(files.root, BATCH, 'parts'));
    const directory = path.join(files.root, BATCH, 'parts', part);
    const isNamed = (): boolean => existsSync(path.join(directory, 'rollouts.jsonl'));
    const synced: { inode: number; named: boolean }[] = [];
    await hearSyncs(t, (inode) => void synced.push({ inode, named: isNamed() }));
    await writer.close();
    const inodes = await Promise.all(
      ['rollouts.jsonl', 'failures.jsonl', 'summaries.jsonl', ''].map(
        async (name) => (await stat(path.join(directory, name))).ino,
      ),
    );
    assert.deepEqual(
      synced,
      inodes.map((inode, i) => ({ inode, named: i === 3 })),
    );
  });

  test('of failures only has an empty rollouts file', async (t) => {
    const outputs = await outputsOf(await temporaryStore(t));
    const part = { first: 2, last: 2 };
    await closePart(outputs, { part });
    assert.deepEqual(await joinedFiles(outputs, [part]), expectedFiles([2]));
    assert.equal((await stat(outputs.files.rollouts)).size, 0);
  });

  test('reports its position at each row, small enough for a heartbeat', async (t) => {
    const outputs = await outputsOf(await temporaryStore(t));
    const writer = await outputs.openPart(PART, null);
    const { attempt } = writer.position;
    assert.deepEqual(writer.position, {
      attempt,
      written: 0,
      offsets: { rollouts: 0, failures: 0, summaries: 0 },
    });
    for (const row of [0, 1, 2]) await writeRow(writer, row);
    const { rollouts, failures, summaries } = expectedFiles([0, 1, 2]);
    assert.deepEqual(writer.position, {
      attempt,
      written: 3,
      offsets: {
        rollouts: Buffer.byteLength(rollouts),
        failures: Buffer.byteLength(failures),
        summaries: summaries.join('\n').length + 1,
      },
    });
    await writer.abandon();
  });
});

describe('parts', () => {
  const parts = [
    { first: 0, last: 3 },
    { first: 4, last: 4 },
    { first: 5, last: 30 },
  ];

  test('are joined in the order given, whatever order they were closed in', async (t) => {
    const outputs = await outputsOf(await temporaryStore(t));
    for (const part of [...parts].reverse()) await closePart(outputs, { part });
    const all = expectedFiles(rowsOf({ first: 0, last: 30 }));
    assert.deepEqual(await joinedFiles(outputs, parts), all);
    assert.deepEqual(await joinedFiles(outputs, parts), all, 'joining twice adds nothing');
  });

  test('are joined byte by byte, also when they are many and large', async (t) => {
    const outputs = await outputsOf(await temporaryStore(t));
    const many = Array.from({ length: 12 }, (_, i) => ({ first: i, last: i }));
    for (const part of many) {
      const writer = await outputs.openPart(part, null);
      const row = JSON.stringify({ row: part.first, text: '漢'.repeat(60_000) });
      await writer.write({ row, summary: '{}', valid: true, sequences: () => [] });
      await writer.close();
    }
    await outputs.join(many);
    const lines = (await readFile(outputs.files.rollouts, 'utf8')).split('\n').slice(0, -1);
    assert.deepEqual(
      lines.map((line) => (JSON.parse(line) as { row: number }).row),
      many.map(({ first }) => first),
    );
    assert.ok(lines.every((line) => line.length > 60_000 && !line.includes('\ufffd')));
  });

  test('are not joined while one is missing', async (t) => {
    const outputs = await outputsOf(await temporaryStore(t));
    await closePart(outputs, { part: { first: 0, last: 3 } });
    await assert.rejects(outputs.join(parts), /joining the parts of batch/);
    await assert.rejects(
      stat(outputs.files.rollouts),
      /ENOENT/,
      'half a file under its final name',
    );
  });
});

describe('groups.jsonl', () => {
  test('is replaced whole, in the order that it is given in', async (t) => {
    const outputs = await outputsOf(await temporaryStore(t));
    await outputs.putGroupTable(['{"row":0}', '{"row":1}', '{"row":2}']);
    await outputs.putGroupTable(['{"row":1}', '{"row":0}']);
    assert.equal(await readFile(outputs.files.groups, 'utf8'), '{"row":1}\n{"row":0}\n');
  });

  test('of a disk that does not take it is a StoreFault that names it', async (t) => {
    const files = await temporaryStore(t);
    await mkdir(path.join(files.root, BATCH, 'groups.jsonl'), { recursive: true });
    await assert.rejects(
      files.store.outputs(BATCH).putGroupTable(['{}']),
      faultOf('StoreFault', 'writing groups.jsonl of batch'),
    );
  });
});

describe('metrics.json', () => {
  test('comes last: with it the parts are gone and nothing else is left over', async (t) => {
    const files = await temporaryStore(t);
    const outputs = await outputsOf(files);
    const writer = await outputs.openPart(PART, null);
    await writeRow(writer, 0);
    await writer.abandon();
    await closePart(outputs, { part: PART, resume: writer.position });
    await outputs.join([PART]);
    await assert.rejects(stat(outputs.files.metrics), /ENOENT/);
    await outputs.putMetrics({ schema_version: 1, metrics: { a: 1 } });
    const text = await readFile(outputs.files.metrics, 'utf8');
    assert.deepEqual(JSON.parse(text), { schema_version: 1, metrics: { a: 1 } });
    assert.deepEqual((await readdir(path.join(files.root, BATCH))).sort(), [
      'batch.json',
      'failures.jsonl',
      'metrics.json',
      'rollouts.jsonl',
      'samples.index',
      'samples.jsonl',
    ]);
  });

  test('replaces an earlier one', async (t) => {
    const outputs = await outputsOf(await temporaryStore(t));
    await outputs.putMetrics({ round: 1 });
    await outputs.putMetrics({ round: 2 });
    assert.deepEqual(JSON.parse(await readFile(outputs.files.metrics, 'utf8')), { round: 2 });
  });

  test('files are absolute paths in the batch’s directory', async (t) => {
    const files = await temporaryStore(t);
    const { files: names } = files.store.outputs(BATCH);
    assert.deepEqual(names, {
      rollouts: path.join(files.root, BATCH, 'rollouts.jsonl'),
      failures: path.join(files.root, BATCH, 'failures.jsonl'),
      groups: path.join(files.root, BATCH, 'groups.jsonl'),
      metrics: path.join(files.root, BATCH, 'metrics.json'),
    });
    assert.ok(path.isAbsolute(names.rollouts));
  });
});
