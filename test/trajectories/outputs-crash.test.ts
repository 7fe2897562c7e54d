import assert from 'node:assert/strict';
import { appendFile, readdir, rename, rm, truncate, writeFile } from 'node:fs/promises';
import path from 'node:path';
import { describe, test } from 'node:test';
import type { TestContext } from 'node:test';
import type { BatchOutputs, PartPosition } from '../../src/trajectories/trajectory-store.js';
import { closePart, expectedFiles, joinedFiles, rowsOf, writeRow } from '../fakes/closing.js';
import { BATCH, requestOf, sampleOf, temporaryStore } from '../fakes/temporary-store.js';

const PART = { first: 0, last: 9 };
const KINDS = ['rollouts', 'failures', 'summaries'] as const;
const ALL = expectedFiles(rowsOf(PART));

interface Scene {
  outputs: BatchOutputs;
  directory: string;
  /** The attempt's own file, or under the final name. */
  file: (kind: (typeof KINDS)[number], attempt?: string) => string;
}

async function scene(t: TestContext): Promise<Scene> {
  const { store, root } = await temporaryStore(t);
  await store.createBatch({ batch_id: BATCH, request: requestOf(), samples: [sampleOf('x')] });
  const directory = path.join(root, BATCH, 'parts', '0-9');
  return {
    outputs: store.outputs(BATCH),
    directory,
    file: (kind, attempt) =>
      path.join(directory, `${kind}.jsonl${attempt === undefined ? '' : `.${attempt}`}`),
  };
}

/** An attempt that dies after so many rows; its last heartbeat may be older. */
async function dieAfter(
  { outputs }: Scene,
  {
    rows,
    heartbeat = rows,
    resume = null,
  }: { rows: number; heartbeat?: number; resume?: PartPosition | null },
): Promise<PartPosition> {
  const writer = await outputs.openPart(PART, resume);
  let reported = writer.position;
  for (const row of rowsOf(PART).slice(writer.position.written, rows)) {
    await writeRow(writer, row);
    if (writer.position.written === heartbeat) reported = writer.position;
  }
  await writer.abandon();
  return reported;
}

describe('an attempt that dies while it writes rows', () => {
  for (const rows of [0, 1, 5, 10]) {
    for (const heartbeat of [...new Set([0, Math.floor(rows / 2), rows])]) {
      test(`after ${rows} rows, with its heartbeat at ${heartbeat}: each row is written once`, async (t) => {
        const crash = await scene(t);
        const resume = await dieAfter(crash, { rows, heartbeat });
        const writer = await crash.outputs.openPart(PART, resume);
        assert.equal(writer.position.written, heartbeat);
        await writer.abandon();
        await closePart(crash.outputs, { part: PART, resume });
        assert.deepEqual(await joinedFiles(crash.outputs, [PART]), ALL);
      });
    }
  }

  test('in the middle of a line: the half line goes', async (t) => {
    const crash = await scene(t);
    const resume = await dieAfter(crash, { rows: 4 });
    for (const kind of KINDS) await appendFile(crash.file(kind, resume.attempt), '{"row":4,"te');
    await closePart(crash.outputs, { part: PART, resume });
    assert.deepEqual(await joinedFiles(crash.outputs, [PART]), ALL);
  });

  test('again and again: progress goes from attempt to attempt, and files do not heap up', async (t) => {
    const crash = await scene(t);
    let resume: PartPosition | null = null;
    for (let rows = 1; rows <= 9; rows++) {
      resume = await dieAfter(crash, { rows, resume });
      assert.equal(resume.written, rows);
      const names = await readdir(crash.directory);
      assert.ok(names.length <= 2 * KINDS.length, `${names.length} files after ${rows} attempts`);
    }
    await closePart(crash.outputs, { part: PART, resume });
    assert.deepEqual(await joinedFiles(crash.outputs, [PART]), ALL);
  });

  test('before its own first heartbeat: what its predecessor wrote still counts', async (t) => {
    const crash = await scene(t);
    const resume = await dieAfter(crash, { rows: 6 });
    await dieAfter(crash, { rows: 6, resume });
    const writer = await crash.outputs.openPart(PART, resume);
    assert.equal(writer.position.written, 6);
    await writer.abandon();
  });

  test('without any heartbeat: the next one starts over', async (t) => {
    const crash = await scene(t);
    await dieAfter(crash, { rows: 7 });
    await closePart(crash.outputs, { part: PART });
    assert.deepEqual(await joinedFiles(crash.outputs, [PART]), ALL);
  });
});

describe('a heartbeat that names files which are not there', () => {
  test('because the attempt ran on another host: the next one starts over', async (t) => {
    const crash = await scene(t);
    const resume = {
      attempt: 'elsewhere',
      written: 5,
      offsets: { rollouts: 9, failures: 9, summaries: 9 },
    };
    const writer = await closePart(crash.outputs, { part: PART, resume });
    assert.equal(writer.position.written, 10);
    assert.deepEqual(await joinedFiles(crash.outputs, [PART]), ALL);
  });

  for (const kind of KINDS) {
    test(`because a power cut shortened ${kind}: the next one starts over`, async (t) => {
      const crash = await scene(t);
      const resume = await dieAfter(crash, { rows: 6 });
      await truncate(crash.file(kind, resume.attempt), resume.offsets[kind] - 3);
      const writer = await crash.outputs.openPart(PART, resume);
      assert.equal(writer.position.written, 0);
      await writer.abandon();
      await closePart(crash.outputs, { part: PART, resume });
      assert.deepEqual(await joinedFiles(crash.outputs, [PART]), ALL);
    });
  }
});

describe('an attempt that dies while it gives the final names', () => {
  for (const named of [0, 1, 2]) {
    test(`after ${named} of 3: the part is not closed, and closing it again gives each row once`, async (t) => {
      const crash = await scene(t);
      const resume = await dieAfter(crash, { rows: 10 });
      for (const kind of KINDS.slice(0, named))
        await rename(crash.file(kind, resume.attempt), crash.file(kind));
      assert.equal(await crash.outputs.isClosed(PART), false);
      await closePart(crash.outputs, { part: PART, resume });
      assert.equal(await crash.outputs.isClosed(PART), true);
      assert.deepEqual(await joinedFiles(crash.outputs, [PART]), ALL);
    });
  }
});

describe('an attempt that dies after the part is closed', () => {
  test('while it joins: an old or a half-joined batch is replaced', async (t) => {
    const crash = await scene(t);
    await closePart(crash.outputs, { part: PART });
    await writeFile(crash.outputs.files.rollouts, 'from an earlier run\n');
    await writeFile(`${crash.outputs.files.rollouts}.1234.tmp`, 'half');
    assert.deepEqual(await joinedFiles(crash.outputs, [PART]), ALL);
  });

  for (const kind of KINDS) {
    test(`while it clears the parts away, with ${kind} gone first: the part is closed again`, async (t) => {
      const crash = await scene(t);
      await closePart(crash.outputs, { part: PART });
      await crash.outputs.join([PART]);
      await writeFile(crash.outputs.files.metrics, '{}');
      await rm(crash.file(kind));
      assert.equal(await crash.outputs.isClosed(PART), false);
      await closePart(crash.outputs, { part: PART });
      assert.deepEqual(await joinedFiles(crash.outputs, [PART]), ALL);
      await crash.outputs.putMetrics({});
    });
  }

  test('with the parts gone: they are closed again and say the same', async (t) => {
    const crash = await scene(t);
    await closePart(crash.outputs, { part: PART });
    await crash.outputs.join([PART]);
    await crash.outputs.putMetrics({});
    assert.equal(await crash.outputs.isClosed(PART), false);
    await closePart(crash.outputs, { part: PART });
    assert.deepEqual(await joinedFiles(crash.outputs, [PART]), ALL);
  });
});

describe('an attempt that was replaced but still runs', () => {
  test('cannot spoil what its successor closed', async (t) => {
    const crash = await scene(t);
    const zombie = await crash.outputs.openPart(PART, null);
    for (const row of [0, 1, 2]) await writeRow(zombie, row);
    await closePart(crash.outputs, { part: PART, resume: zombie.position });
    await writeRow(zombie, 3);
    await zombie.abandon();
    assert.deepEqual(await joinedFiles(crash.outputs, [PART]), ALL);
  });
});
