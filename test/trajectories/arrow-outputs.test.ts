import assert from 'node:assert/strict';
import { appendFile, readFile, readdir } from 'node:fs/promises';
import path from 'node:path';
import { describe, test } from 'node:test';
import type { TestContext } from 'node:test';
import { tableFromIPC } from '@uwdata/flechette';
import type { ArrowRow } from '../../src/model/results/arrow/columns.js';
import { ARROW_COLUMNS } from '../../src/model/results/arrow/columns.js';
import { END, HEAD } from '../../src/trajectories/arrow/batches.js';
import { MOST_BATCH_BYTES, packing } from '../../src/trajectories/arrow/packing.js';
import { createFileStore } from '../../src/trajectories/files/file-store.js';
import type { BatchOutputs, PartPosition } from '../../src/trajectories/trajectory-store.js';
import { closePart, joinedFiles, rowsOf, sequencesOf, writeRow } from '../fakes/closing.js';
import { BATCH, requestOf, sampleOf, temporaryFolder } from '../fakes/temporary-store.js';

const PART = { first: 0, last: 13 };
const isValid = (row: number): boolean => row % 3 !== 2;

async function outputsOf(t: TestContext): Promise<{ outputs: BatchOutputs; root: string }> {
  const root = await temporaryFolder(t);
  const store = createFileStore({ root, max_cached_bytes: 0, formats: ['jsonl', 'arrow'] });
  await store.createBatch({ batch_id: BATCH, request: requestOf(), samples: [sampleOf('x')] });
  return { outputs: store.outputs(BATCH), root };
}

const bytesOf = async ({ files }: BatchOutputs): Promise<Buffer> =>
  await readFile(files.sequences ?? '');

/** Its rows by column, as another library's reader has them, and how many each batch has. */
function readArrow(bytes: Buffer): { rows: unknown[]; batches: number[] } {
  const table = tableFromIPC(bytes);
  assert.deepEqual(
    table.names,
    ARROW_COLUMNS.map(({ name }) => name),
  );
  return {
    rows: table.toArray(),
    batches: table.children[0]?.data.map(({ length }) => length) ?? [],
  };
}

const expectedRows = (rows: readonly number[]): unknown[] =>
  rows
    .filter(isValid)
    .flatMap((row) => sequencesOf(row).map((one) => ({ ...one, total_reward: one.total_reward })));

describe('rollouts.arrow', () => {
  test('has the valid rollouts in order, with every column as it was', async (t) => {
    const { outputs } = await outputsOf(t);
    await closePart(outputs, { part: PART });
    await joinedFiles(outputs, [PART]);
    const bytes = await bytesOf(outputs);
    assert.deepEqual(readArrow(bytes).rows, expectedRows(rowsOf(PART)));
    assert.deepEqual(bytes.subarray(-END.length), END);
  });

  test('has no record batch of two groups', async (t) => {
    const { outputs } = await outputsOf(t);
    await closePart(outputs, { part: PART });
    await joinedFiles(outputs, [PART]);
    // Rows 0, 1, 3 | 4, 6, 7 | 9, 10 | 12, 13.
    assert.deepEqual(readArrow(await bytesOf(outputs)).batches, [3, 3, 2, 2]);
  });

  test('is joined from parts by their batches', async (t) => {
    const { outputs } = await outputsOf(t);
    const parts = [
      { first: 0, last: 2 },
      { first: 3, last: 3 },
      { first: 4, last: 13 },
    ];
    for (const part of [...parts].reverse()) await closePart(outputs, { part });
    await joinedFiles(outputs, parts);
    const { rows, batches } = readArrow(await bytesOf(outputs));
    assert.deepEqual(rows, expectedRows(rowsOf(PART)));
    assert.deepEqual(batches, [2, 1, 3, 2, 2]);
  });

  test('of no rollouts has its columns and its end', async (t) => {
    const { outputs } = await outputsOf(t);
    await closePart(outputs, { part: { first: 2, last: 2 } });
    await joinedFiles(outputs, [{ first: 2, last: 2 }]);
    assert.deepEqual(await bytesOf(outputs), Buffer.concat([HEAD, END]));
  });

  test('is named in the result only where it is asked for', async (t) => {
    const { outputs } = await outputsOf(t);
    assert.equal(path.basename(outputs.files.sequences ?? ''), 'rollouts.arrow');
    const root = await temporaryFolder(t);
    const other = createFileStore({ root, max_cached_bytes: 0 }).outputs(BATCH);
    assert.equal('sequences' in other.files, false);
  });
});

describe('an attempt that dies while it writes record batches', () => {
  for (let rows = 0; rows <= 14; rows++) {
    test(`after ${rows} rows: the next one goes on behind whole batches, and the file is the same`, async (t) => {
      const { outputs, root } = await outputsOf(t);
      await closePart(outputs, { part: PART });
      const whole = await joinedFiles(outputs, [PART]);
      const expected = await bytesOf(outputs);

      const { outputs: again, root: other } = await outputsOf(t);
      assert.notEqual(root, other);
      const dying = await again.openPart(PART, null);
      for (const row of rowsOf(PART).slice(0, rows)) await writeRow(dying, row);
      const resume: PartPosition = dying.position;
      await dying.abandon();
      const parts = path.join(other, BATCH, 'parts', '0-13');
      for (const name of await readdir(parts)) await appendFile(path.join(parts, name), 'torn');
      await closePart(again, { part: PART, resume });
      assert.deepEqual(await joinedFiles(again, [PART]), whole);
      assert.deepEqual(await bytesOf(again), expected);
    });
  }

  test('keeps a position at which all files have the same rollouts', async (t) => {
    const { outputs } = await outputsOf(t);
    const writer = await outputs.openPart(PART, null);
    const written: number[] = [];
    for (const row of rowsOf(PART)) {
      await writeRow(writer, row);
      written.push(writer.position.written);
    }
    // A batch is written with the first valid row of the next group, whose own place is not covered yet.
    assert.deepEqual(written, [0, 0, 0, 0, 4, 4, 4, 4, 4, 9, 9, 9, 12, 12]);
    await writer.abandon();
  });

  test('under a store without it starts over where it is asked for', async (t) => {
    const { root, outputs } = await outputsOf(t);
    const without = createFileStore({ root, max_cached_bytes: 0 }).outputs(BATCH);
    const dying = await without.openPart(PART, null);
    for (const row of rowsOf(PART).slice(0, 9)) await writeRow(dying, row);
    await dying.abandon();
    const next = await outputs.openPart(PART, dying.position);
    assert.equal(next.position.written, 0);
    await next.abandon();
    await closePart(without, { part: PART });
    assert.equal(await outputs.isClosed(PART), false);
  });
});

describe('record batches', () => {
  const sized = (tokens: number, of: Partial<ArrowRow> = {}): ArrowRow => ({
    ...(sequencesOf(0)[0] as ArrowRow),
    input_ids: new Int32Array(tokens),
    loss_mask: new Uint8Array(tokens),
    logprobs: new Float32Array(tokens),
    versions: new Int32Array(tokens),
    ...of,
  });
  async function packed(
    rollouts: readonly ArrowRow[][],
  ): Promise<{ batches: number[]; largest: number }> {
    const written: Buffer[] = [];
    const pack = packing((batch) => Promise.resolve(void written.push(batch)));
    for (const rollout of rollouts) await pack.add(rollout);
    await pack.flush();
    const { batches } = readArrow(Buffer.concat([HEAD, ...written, END]));
    return { batches, largest: Math.max(...written.map(({ length }) => length)) };
  }

  test('of one group end before 8 MiB', async () => {
    const { batches, largest } = await packed(Array.from({ length: 40 }, () => [sized(32_768)]));
    assert.deepEqual(batches, [19, 19, 2]);
    assert.ok(largest <= MOST_BATCH_BYTES, `${largest} bytes`);
  });

  test('of one row may be larger', async () => {
    const { batches } = await packed([[sized(1)], [sized(800_000)], [sized(1)]]);
    assert.deepEqual(batches, [1, 1, 1]);
  });

  test('end within a rollout only if it alone is larger', async () => {
    const large = Array.from({ length: 10 }, (_, sequence) => sized(131_072, { sequence }));
    const { batches } = await packed([[sized(1)], large, [sized(2), sized(3)]]);
    assert.deepEqual(batches, [1, 4, 4, 2, 2]);
  });
});
