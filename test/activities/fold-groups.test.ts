import assert from 'node:assert/strict';
import { access, readFile, readdir, rm, stat } from 'node:fs/promises';
import path from 'node:path';
import type { TestContext } from 'node:test';
import { describe, test } from 'node:test';
import { tableFromIPC } from '@uwdata/flechette';
import type { Formats } from '../../src/model/results/arrow/formats.js';
import type { Row } from '../../src/model/results/row.js';
import type { StopReason } from '../../src/model/workflow-safe/stop-reasons.js';
import { END } from '../../src/trajectories/arrow/batches.js';
import type { Bench } from '../fakes/activity-bench.js';
import { activityBench } from '../fakes/activity-bench.js';
import { author, entryOf, wholeTurn } from '../fakes/journal-lines.js';
import { BATCH, requestOf, sampleOf } from '../fakes/temporary-store.js';

const a = author('');

async function end(
  bench: Bench,
  { row, repeat, as }: { row: number; repeat: number; as: StopReason },
): Promise<void> {
  const journal = await bench.store.claim({ batch_id: BATCH, row, repeat }, { activity: 'x' });
  const lines = [
    a.start(),
    ...wholeTurn(a, { reward: row, terminated: as === 'terminated' }),
    a.end({ stop_reason: as }),
  ];
  for (const line of lines) await journal.append(entryOf(line));
  await journal.commit();
}

/** Three groups of two; each rollout ended so. */
async function batchOf(
  t: TestContext,
  { formats = ['jsonl'], ...request }: { formats?: Formats; [field: string]: unknown } = {},
): Promise<Bench> {
  const bench = await activityBench(t, { formats });
  const samples = [0, 1, 2].map((row) => sampleOf(`prompt ${row}`));
  await bench.store.createBatch({
    batch_id: BATCH,
    request: requestOf({ num_repeats: 2, ...request }),
    samples,
  });
  const ends: StopReason[][] = [
    ['terminated', 'failed'],
    ['terminated', 'terminated'],
    ['stopped', 'terminated'],
  ];
  for (const [row, repeats] of ends.entries())
    for (const [repeat, as] of repeats.entries()) await end(bench, { row, repeat, as });
  return bench;
}

async function rowsOf(file: string): Promise<Row[]> {
  const text = await readFile(file, 'utf8');
  return text
    .split('\n')
    .filter((line) => line !== '')
    .map((line) => JSON.parse(line) as Row);
}

const places = (rows: Row[]): string[] => rows.map(({ row, repeat }) => `${row}-${repeat}`);
const fold = (bench: Bench, { from, rows }: { from: number; rows: number[] }) =>
  bench.result('foldGroups', { batch_id: BATCH, stopped: false, from, rows });

describe('groups that have ended', () => {
  test('are the rows that the closing writes, valid ones and failures, in the order in which the groups ended', async (t) => {
    const bench = await batchOf(t);
    const { file } = await fold(bench, { from: 0, rows: [2, 0] });
    const other = await fold(bench, { from: 2, rows: [1] });
    const names = [file, other.file].map((name) => path.relative(bench.root, name));
    assert.deepEqual(names, [`${BATCH}/groups/0-2.jsonl`, `${BATCH}/groups/2-3.jsonl`]);
    const rows = [...(await rowsOf(file)), ...(await rowsOf(other.file))];
    assert.deepEqual(places(rows), ['2-0', '2-1', '0-0', '0-1', '1-0', '1-1']);
    const { files } = await bench.result('closeBatch', { batch_id: BATCH, stopped: false });
    const closed = [...(await rowsOf(files.rollouts)), ...(await rowsOf(files.failures))];
    const byPlace = (one: Row, two: Row): number => one.row - two.row || one.repeat - two.repeat;
    assert.deepEqual(rows.toSorted(byPlace), closed.toSorted(byPlace));
  });

  test('under min_k have as many rows as the closing gives them', async (t) => {
    const bench = await batchOf(t, { completion: { policy: 'min_k', k: 1 } });
    const rows = await rowsOf((await fold(bench, { from: 0, rows: [1] })).file);
    assert.deepEqual(
      rows.map(({ failure }) => failure?.type),
      [undefined, 'Surplus'],
    );
  });

  test('are put once: who asks again has the same file, whatever became of a journal since', async (t) => {
    const bench = await batchOf(t);
    const { file } = await fold(bench, { from: 0, rows: [0] });
    const before = await readFile(file, 'utf8');
    await bench.store.claim(
      { batch_id: BATCH, row: 0, repeat: 1 },
      { activity: 'x', reopen: true },
    );
    await end(bench, { row: 0, repeat: 1, as: 'terminated' });
    assert.deepEqual(await fold(bench, { from: 0, rows: [0] }), { file });
    assert.equal(await readFile(file, 'utf8'), before);
    assert.deepEqual(await readdir(path.dirname(file)), ['0-1.jsonl']);
  });

  test('have the valid ones in Arrow beside them, where the store writes it', async (t) => {
    const bench = await batchOf(t, { formats: ['jsonl', 'arrow'] });
    const { file, sequences = '', completed } = await fold(bench, { from: 0, rows: [2, 0, 1] });
    const rows = (await rowsOf(file)).filter(({ failure }) => failure === undefined);
    assert.equal(path.relative(bench.root, sequences), `${BATCH}/groups/0-3.arrow`);
    const bytes = await readFile(sequences);
    const table = tableFromIPC(bytes);
    const ids = [...table.getChild('rollout_id')] as string[];
    assert.deepEqual(
      ids,
      rows.map(({ rollout_id }) => rollout_id),
    );
    assert.deepEqual([completed, bytes.subarray(-END.length)], [rows.length, END]);
    // No record batch of two groups.
    assert.deepEqual(
      table.children[0]?.data.map(({ length }) => length),
      [1, 1, 2],
    );
  });

  test('have the same Arrow file again, whatever became of a journal since', async (t) => {
    const bench = await batchOf(t, { formats: ['jsonl', 'arrow'] });
    const before = await fold(bench, { from: 0, rows: [0, 1] });
    const bytes = await readFile(before.sequences ?? '');
    await bench.store.claim(
      { batch_id: BATCH, row: 0, repeat: 1 },
      { activity: 'x', reopen: true },
    );
    await end(bench, { row: 0, repeat: 1, as: 'terminated' });
    const { ino } = await stat(before.sequences ?? '');
    assert.deepEqual(await fold(bench, { from: 0, rows: [0, 1] }), before);
    assert.deepEqual(await readFile(before.sequences ?? ''), bytes);
    assert.equal((await stat(before.sequences ?? '')).ino, ino, 'it was made again');
  });

  for (const lost of ['0-2.json', '0-2.arrow']) {
    test(`have their Arrow file of the same rows after a worker that died before it had put ${lost}`, async (t) => {
      const bench = await batchOf(t, { formats: ['jsonl', 'arrow'] });
      const before = await fold(bench, { from: 0, rows: [0, 1] });
      const bytes = await readFile(before.sequences ?? '');
      const folder = path.dirname(before.file);
      for (const name of ['0-2.json', lost]) await rm(path.join(folder, name), { force: true });
      assert.deepEqual(await fold(bench, { from: 0, rows: [0, 1] }), before);
      assert.deepEqual(await readFile(before.sequences ?? ''), bytes);
      assert.deepEqual(await readdir(folder), ['0-2.arrow', '0-2.json', '0-2.jsonl']);
    });
  }

  test('are forgotten when the batch is started again', async (t) => {
    const bench = await batchOf(t);
    const { file } = await fold(bench, { from: 0, rows: [0] });
    await bench.store.reopenBatch(BATCH);
    await assert.rejects(access(path.dirname(file)), { code: 'ENOENT' });
    await fold(bench, { from: 0, rows: [1] });
    assert.deepEqual(places(await rowsOf(file)), ['1-0', '1-1']);
  });
});
