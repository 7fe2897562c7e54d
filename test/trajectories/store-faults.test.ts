import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { closeSync, openSync, readdirSync, readlinkSync } from 'node:fs';
import { chmod, mkdir, realpath, rm, symlink, writeFile } from 'node:fs/promises';
import path from 'node:path';
import { describe, test } from 'node:test';
import type { Fault } from '../../src/model/faults.js';
import type { TemporaryStore } from '../fakes/temporary-store.js';
import { author, entryOf } from '../fakes/journal-lines.js';
import { openAnswer } from '../../src/model/journal/open-answers.js';
import {
  BATCH,
  REF,
  faultOf,
  requestOf,
  sampleOf,
  temporaryStore,
} from '../fakes/temporary-store.js';

const by = { activity: 'playTurns' };
const batch = { batch_id: BATCH, request: requestOf(), samples: [sampleOf('x')] };
const PART = { first: 0, last: 0 };

const retryable =
  (...texts: string[]) =>
  (error: unknown): boolean =>
    faultOf('StoreFault', ...texts)(error) && (error as Fault).retryable;

/** A device on which every write fails with ENOSPC. */
const FULL = '/dev/full';
const noFullDevice = process.platform === 'linux' ? false : `needs ${FULL}`;

async function linkJournalTo({ journalFile }: TemporaryStore, target: string): Promise<void> {
  await mkdir(path.dirname(journalFile()), { recursive: true });
  await symlink(target, journalFile());
}

describe('a root that cannot be written', () => {
  test('is a retryable StoreFault that names the batch or the rollout, whatever is tried', async (t) => {
    const { store, root } = await temporaryStore(t);
    await writeFile(root, 'a file where the directory should be');
    await assert.rejects(store.createBatch(batch), retryable('batch batch: ENOTDIR'));
    await assert.rejects(store.claim(REF, by), retryable('journal of batch/0-0: ENOTDIR'));
    await assert.rejects(store.readTrajectory(REF), retryable('journal of batch/0-0: ENOTDIR'));
    await assert.rejects(store.findRequest(BATCH), retryable('batch batch: ENOTDIR'));
    const outputs = store.outputs(BATCH);
    await assert.rejects(outputs.openPart(PART, null), retryable('rows 0 to 0 of batch: ENOTDIR'));
    await assert.rejects(outputs.join([PART]), retryable('parts of batch: ENOTDIR'));
    await assert.rejects(outputs.putMetrics({}), retryable('metrics.json of batch: ENOTDIR'));
  });

  test('heals: the next attempt continues', async (t) => {
    const { store, root } = await temporaryStore(t);
    await writeFile(root, '');
    await assert.rejects(store.claim(REF, by), retryable());
    await rm(root);
    await (await store.claim(REF, by)).commit();
  });

  const asRoot = process.getuid?.() === 0 ? 'root may write anywhere' : false;
  test('because it is read-only is one, too', { skip: asRoot }, async (t) => {
    const { store, root } = await temporaryStore(t);
    await mkdir(root);
    await chmod(root, 0o500);
    await assert.rejects(store.createBatch(batch), retryable('batch batch: EACCES'));
    await assert.rejects(store.claim(REF, by), retryable('journal of batch/0-0: EACCES'));
    await chmod(root, 0o700);
  });
});

describe('a full disk', { skip: noFullDevice }, () => {
  test('refuses a claim with a retryable StoreFault that names the rollout', async (t) => {
    const files = await temporaryStore(t);
    await linkJournalTo(files, FULL);
    await assert.rejects(files.store.claim(REF, by), retryable('journal of batch/0-0: ENOSPC'));
  });
});

/** Writes until a limit of file size stops it, as a disk does that fills up in the middle of a line. */
function fillDisk(root: string, what: 'journal' | 'answer' | 'rows') {
  const program = path.join(import.meta.dirname, '../fakes/fill-disk.js');
  const command = `ulimit -f 128 && exec "$0" "$@"`;
  const output = execFileSync('sh', ['-c', command, process.execPath, program, root, what], {
    encoding: 'utf8',
  });
  return JSON.parse(output) as { count: number; type: string; message: string; retryable: boolean };
}

describe('a disk that fills up', () => {
  test('in the middle of a chunk costs that chunk, which was not taken for written', async (t) => {
    const { store, root } = await temporaryStore(t);
    const { count, type, message, retryable: again } = fillDisk(root, 'journal');
    assert.deepEqual([type, again], ['StoreFault', true]);
    assert.match(
      message,
      /^journal of batch\/0-0: (wrote \d+ of \d+ bytes: the disk is full|EFBIG)/,
    );
    assert.ok(count > 10);
    const next = await store.claim(REF, by);
    const { token_ids } = openAnswer(next.trajectory);
    assert.deepEqual(
      token_ids,
      Array.from({ length: count }, (_, i) => i),
    );
    await next.append(entryOf(author('ignored').chunk({ offset: count, token_ids: [7] })));
    await next.commit();
    assert.equal(openAnswer(await store.readTrajectory(REF)).token_ids.length, count + 1);
  });

  test('in the middle of a large line has room for a small one, which says so', async (t) => {
    const { store, root } = await temporaryStore(t);
    const { count, type, message } = fillDisk(root, 'answer');
    assert.deepEqual([count, type], [1, 'StoreFault']);
    assert.match(message, /: wrote \d+ of \d+ bytes: the disk is full or failing$/);
    const { lives, faults } = await store.readTrajectory(REF);
    assert.deepEqual([lives.length, lives[0]?.result, faults], [1, null, { StoreFault: 1 }]);
  });

  test('while rows are closed is a fault that names them and their batch', async (t) => {
    const { root } = await temporaryStore(t);
    const { count, type, message, retryable: again } = fillDisk(root, 'rows');
    assert.deepEqual([type, again], ['StoreFault', true]);
    assert.match(message, /^writing rows 0 to 9 of batch: EFBIG/);
    assert.ok(count > 10);
  });
});

/** The number under which this process has a file open. */
const descriptorOf = (file: string): number =>
  readdirSync('/proc/self/fd')
    .map(Number)
    .find((fd) => {
      try {
        return readlinkSync(`/proc/self/fd/${fd}`) === file;
      } catch {
        return false;
      }
    }) ?? -1;

describe('a journal that is not what it should be', () => {
  test(
    'and that the disk does not sync is not reported as committed',
    { skip: noFullDevice },
    async (t) => {
      const { store, journalFile } = await temporaryStore(t);
      const journal = await store.claim(REF, by);
      const fd = descriptorOf(await realpath(journalFile()));
      // Its number is now that of a device which cannot be synced.
      closeSync(fd);
      assert.equal(openSync('/dev/null', 'r+'), fd);
      await assert.rejects(journal.commit(), retryable('journal of batch/0-0: EINVAL'));
      await journal.release();
    },
  );

  test('is a retryable StoreFault that names the rollout', async (t) => {
    const { store, journalFile } = await temporaryStore(t);
    await mkdir(journalFile(), { recursive: true });
    await assert.rejects(store.claim(REF, by), retryable('journal of batch/0-0: EISDIR'));
    await assert.rejects(
      store.readTrajectory(REF),
      retryable('journal of batch/0-0: ', 'expected a journal, got a directory'),
    );
  });

  test('an attempt that has let go can neither append nor commit', async (t) => {
    const { store } = await temporaryStore(t);
    const journal = await store.claim(REF, by);
    await journal.release();
    await journal.release();
    const line = entryOf(author('ignored').start());
    await assert.rejects(journal.append(line), retryable('journal of batch/0-0'));
    await assert.rejects(journal.commit(), retryable('journal of batch/0-0'));
  });
});

describe('a batch.json that does not parse', () => {
  test('is a StoreFault that names the batch, not another batch’s request', async (t) => {
    const { store, root } = await temporaryStore(t);
    await store.createBatch(batch);
    await writeFile(path.join(root, BATCH, 'batch.json'), '{"samples":');
    await assert.rejects(store.findRequest(BATCH), retryable('batch batch: '));
    await assert.rejects(store.createBatch(batch), retryable('batch batch: '));
  });
});
