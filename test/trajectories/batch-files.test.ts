/** What is a file store's own: which files a batch has, and what becomes of them when an attempt or a machine dies. */
import assert from 'node:assert/strict';
import { existsSync } from 'node:fs';
import { mkdir, readFile, readdir, rm, stat, writeFile } from 'node:fs/promises';
import path from 'node:path';
import { describe, test } from 'node:test';
import { hearSyncs } from '../fakes/synced.js';
import { BATCH, faultOf, requestOf, sampleOf, temporaryStore } from '../fakes/temporary-store.js';
import { plainly } from '../fakes/plainly.js';

const request = requestOf({ num_repeats: 2 });
const samples = [sampleOf('one'), sampleOf('two'), sampleOf('three')];
const batch = { batch_id: BATCH, request, samples };

describe('creating a batch in files', () => {
  test('puts the normalised request and the samples as they came, with where each begins', async (t) => {
    const { store, root } = await temporaryStore(t);
    assert.deepEqual(await store.createBatch(batch), { existed: false });
    assert.deepEqual(plainly(await store.findRequest(BATCH)), request);
    assert.equal(await store.sampleCount(BATCH), 3);
    const text = await readFile(path.join(root, BATCH, 'samples.jsonl'), 'utf8');
    assert.equal(text, samples.map((sample) => `${sample}\n`).join(''));
    const written: unknown = JSON.parse(
      await readFile(path.join(root, BATCH, 'batch.json'), 'utf8'),
    );
    assert.deepEqual(written, request);
    assert.equal(request.schema_version, 1);
  });

  test('leaves no temporary file', async (t) => {
    const { store, root } = await temporaryStore(t);
    await store.createBatch(batch);
    await store.createBatch(batch);
    assert.deepEqual((await readdir(path.join(root, BATCH))).sort(), [
      'batch.json',
      'samples.index',
      'samples.jsonl',
    ]);
  });
});

describe('a batch in files', () => {
  test('stays open through a power cut: the directory is synced behind the removal', async (t) => {
    const { store, root } = await temporaryStore(t);
    await store.createBatch(batch);
    const { metrics } = store.outputs(BATCH).files;
    await writeFile(metrics, '{}');
    const { ino } = await stat(path.join(root, BATCH));
    let isSynced = false;
    await hearSyncs(t, (inode) => {
      if (inode === ino) isSynced = !existsSync(metrics);
    });
    await store.reopenBatch(BATCH);
    assert.ok(isSynced);
  });

  test('is finished by the next attempt wherever the first one died', async (t) => {
    const whole = await temporaryStore(t);
    await whole.store.createBatch(batch);
    for (const last of [[], ['batch.json'], ['batch.json', 'samples.index']]) {
      const { store, root } = await temporaryStore(t);
      await store.createBatch(batch);
      for (const file of last) await rm(path.join(root, BATCH, file));
      await store.createBatch(batch);
      for (const file of ['batch.json', 'samples.index', 'samples.jsonl'])
        assert.deepEqual(
          await readFile(path.join(root, BATCH, file)),
          await readFile(path.join(whole.root, BATCH, file)),
        );
    }
  });

  test('whose manifest lost its end gives a StoreFault, not half a sample', async (t) => {
    const { store, root } = await temporaryStore(t);
    await store.createBatch(batch);
    const file = path.join(root, BATCH, 'samples.jsonl');
    const { size } = await stat(file);
    await writeFile(file, (await readFile(file)).subarray(0, size - 5));
    await store.readSample({ batch_id: BATCH, row: 1 });
    await assert.rejects(
      store.readSample({ batch_id: BATCH, row: 2 }),
      faultOf(
        'StoreFault',
        'sample 2 of batch',
        `samples.jsonl ends at byte ${size - 5}, expected ${size}`,
      ),
    );
  });

  test('is listed when it is whole, and nothing else that is in the folder', async (t) => {
    const { store, root } = await temporaryStore(t);
    await store.createBatch({ batch_id: 'whole', request: requestOf(), samples: [] });
    await mkdir(path.join(root, 'begun'));
    await writeFile(path.join(root, 'begun', 'samples.jsonl'), '');
    await writeFile(path.join(root, 'notes.txt'), 'mine');
    assert.deepEqual(
      (await store.listBatches()).map(({ batch_id }) => batch_id),
      ['whole'],
    );
  });

  test('lists its journals, and no other files', async (t) => {
    const { store, root } = await temporaryStore(t);
    const journal = await store.claim({ batch_id: BATCH, row: 3, repeat: 1 }, { activity: 'x' });
    await journal.release();
    for (const name of ['0-1.jsonl.tmp', 'x0-1.jsonl', '0-1', '0.jsonl'])
      await writeFile(path.join(root, BATCH, 'journals', name), '');
    assert.deepEqual(await store.listJournals(BATCH), [{ row: 3, repeat: 1 }]);
  });
});
