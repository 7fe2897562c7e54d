/** Closing on a disk that is full or can only be read: a file system of its own, so that nothing else is touched. */
import assert from 'node:assert/strict';
import { execFile } from 'node:child_process';
import { mkdtemp, readFile, rm, statfs, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { describe, test } from 'node:test';
import type { TestContext } from 'node:test';
import { promisify } from 'node:util';
import type { Bench } from '../fakes/activity-bench.js';
import { activityBench } from '../fakes/activity-bench.js';
import { author, entryOf, wholeTurn } from '../fakes/journal-lines.js';
import { BATCH, requestOf, sampleOf } from '../fakes/temporary-store.js';

const run = promisify(execFile);
const ROWS = 20;
const CLOSE = { batch_id: BATCH, stopped: false };

/** A batch that is to be closed, on two megabytes of its own; null where this process may not mount. */
async function batchOnItsOwnDisk(t: TestContext): Promise<{ bench: Bench; disk: string } | null> {
  const disk = await mkdtemp(path.join(tmpdir(), 'rollouts-disk-'));
  t.after(async () => {
    await run('umount', ['-l', disk]).catch(() => undefined);
    await rm(disk, { recursive: true });
  });
  try {
    await run('mount', ['-t', 'tmpfs', '-o', 'size=2m', 'tmpfs', disk]);
  } catch {
    t.skip('this user may not mount');
    return null;
  }
  const { TMPDIR } = process.env;
  process.env['TMPDIR'] = disk;
  const bench = await activityBench(t);
  if (TMPDIR === undefined) delete process.env['TMPDIR'];
  else process.env['TMPDIR'] = TMPDIR;
  const samples = Array.from({ length: ROWS }, (_, row) =>
    sampleOf(`row ${row}`, { long: 'x'.repeat(10_000) }),
  );
  await bench.store.createBatch({ batch_id: BATCH, request: requestOf(), samples });
  const lines = author('');
  for (let row = 0; row < ROWS; row++) {
    const journal = await bench.store.claim({ batch_id: BATCH, row, repeat: 0 }, { activity: 'x' });
    const turn = wholeTurn(lines, { reward: row, terminated: true });
    for (const line of [lines.start(), ...turn, lines.end({ stop_reason: 'terminated' })])
      await journal.append(entryOf(line));
    await journal.commit();
  }
  return { bench, disk };
}

/** Waited out by Temporal's retries. */
async function cannotClose(bench: Bench, says: RegExp): Promise<void> {
  const { type, message, nonRetryable } = await bench.failure('closeBatch', CLOSE);
  assert.deepEqual([type, nonRetryable], ['StoreFault', false]);
  assert.match(message, says);
}

async function closesWhole(bench: Bench): Promise<void> {
  const { counts, files } = await bench.result('closeBatch', CLOSE);
  assert.equal(counts.completed, ROWS);
  const rows = (await readFile(files.rollouts, 'utf8')).trimEnd().split('\n');
  assert.deepEqual(
    rows.map((row) => (JSON.parse(row) as { row: number }).row),
    Array.from({ length: ROWS }, (_, row) => row),
  );
}

describe('a batch is closed once it can be', () => {
  test('on a disk that was full', async (t) => {
    const found = await batchOnItsOwnDisk(t);
    if (found === null) return;
    const { bench, disk } = found;
    const ballast = path.join(disk, 'ballast');
    await writeFile(ballast, Buffer.alloc(4 << 20)).catch(() => undefined);
    for (let attempt = 0; attempt < 3; attempt++) await cannotClose(bench, /ENOSPC/);
    await rm(ballast);
    // Room for the parts, not for the files that are joined from them.
    const { bavail, bsize } = await statfs(disk);
    await writeFile(ballast, Buffer.alloc(bavail * bsize - 350_000));
    await cannotClose(bench, /joining the parts of .*ENOSPC/);
    await rm(ballast);
    await closesWhole(bench);
  });

  test('on a disk that could only be read', async (t) => {
    const found = await batchOnItsOwnDisk(t);
    if (found === null) return;
    const { bench, disk } = found;
    await run('mount', ['-o', 'remount,ro', disk]);
    await cannotClose(bench, /EROFS/);
    await run('mount', ['-o', 'remount,rw', disk]);
    await closesWhole(bench);
  });
});
