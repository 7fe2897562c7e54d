import assert from 'node:assert/strict';
import { existsSync } from 'node:fs';
import { readFile, readdir, rm, stat, writeFile } from 'node:fs/promises';
import path from 'node:path';
import { describe, test } from 'node:test';
import { hearSyncs } from '../fakes/synced.js';
import { BATCH, faultOf, requestOf, sampleOf, temporaryStore } from '../fakes/temporary-store.js';

const request = requestOf({ num_repeats: 2 });
const samples = [sampleOf('one'), sampleOf('two'), sampleOf('three')];
const batch = { batch_id: BATCH, request, samples };

describe('creating a batch', () => {
  test('puts the normalised request and the samples as they came, with where each begins', async (t) => {
    const { store, root } = await temporaryStore(t);
    assert.deepEqual(await store.createBatch(batch), { existed: false });
    assert.deepEqual(await store.findRequest(BATCH), request);
    assert.equal(await store.sampleCount(BATCH), 3);
    const text = await readFile(path.join(root, BATCH, 'samples.jsonl'), 'utf8');
    assert.equal(text, samples.map((sample) => `${sample}\n`).join(''));
    const written: unknown = JSON.parse(
      await readFile(path.join(root, BATCH, 'batch.json'), 'utf8'),
    );
    assert.deepEqual(written, request);
    assert.equal(request.schema_version, 1);
  });

  test('a batch that is not there is null', async (t) => {
    const { store } = await temporaryStore(t);
    assert.equal(await store.findRequest(BATCH), null);
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

  test('two that race for the id with the same request both succeed', async (t) => {
    const { store, elsewhere } = await temporaryStore(t);
    await Promise.all(Array.from({ length: 6 }, () => elsewhere().createBatch(batch)));
    assert.deepEqual(await store.findRequest(BATCH), request);
    assert.equal(await store.sampleCount(BATCH), 3);
  });

  test('two that race with different requests: one has the id, the other is refused', async (t) => {
    const { store, elsewhere } = await temporaryStore(t);
    const requests = [1, 2, 3, 4].map((num_repeats) => requestOf({ num_repeats }));
    const results = await Promise.allSettled(
      requests.map((mine) => elsewhere().createBatch({ ...batch, request: mine })),
    );
    const won = requests.filter((_, i) => results[i]?.status === 'fulfilled');
    assert.equal(won.length, 1);
    assert.deepEqual(await store.findRequest(BATCH), won[0]);
    for (const result of results)
      if (result.status === 'rejected')
        assert.ok(faultOf('InvalidBatchRequest', 'num_repeats: ')(result.reason));
  });

  test('two that race with different samples: one has the id, and its manifest is whole', async (t) => {
    const { store, elsewhere } = await temporaryStore(t);
    const contents = ['a', 'b', 'c', 'd'];
    const results = await Promise.allSettled(
      contents.map((content) =>
        elsewhere().createBatch({ ...batch, samples: [sampleOf('same'), sampleOf(content)] }),
      ),
    );
    const won = contents.filter((_, i) => results[i]?.status === 'fulfilled');
    assert.equal(won.length, 1);
    const { message_log } = await store.readSample({ batch_id: BATCH, row: 1 });
    assert.equal(message_log[0]?.content, won[0]);
  });
});

describe('a batch that is there', () => {
  test('continues with the same request', async (t) => {
    const { store, elsewhere } = await temporaryStore(t);
    await store.createBatch(batch);
    assert.deepEqual(await elsewhere().createBatch(batch), { existed: true });
  });

  test('opens again when it was closed: metrics.json and parts go, the rows stay', async (t) => {
    const { store, root } = await temporaryStore(t);
    await store.createBatch(batch);
    const outputs = store.outputs(BATCH);
    await (await outputs.openPart({ first: 0, last: 2 }, null)).close();
    await outputs.join([{ first: 0, last: 2 }]);
    await writeFile(outputs.files.metrics, '{}');
    await store.reopenBatch(BATCH);
    const names = await readdir(path.join(root, BATCH));
    assert.ok(!names.includes('metrics.json') && !names.includes('parts'), names.join());
    assert.ok(names.includes('rollouts.jsonl') && names.includes('failures.jsonl'), names.join());
  });

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

  const differences: [string, Record<string, unknown>, RegExp][] = [
    ['a number', { num_repeats: 3 }, /^num_repeats: the batch of this id has 2, got 3; use another batch id$/],
    ['a nested field', { num_repeats: 2, generation: { top_p: 0.5 } }, /^generation\.top_p: .* has 1, got 0\.5/],
    ['metadata', { num_repeats: 2, metadata: { step: 2 } }, /^metadata\.step: .* has nothing, got 2/],
    ['an empty list for an empty object', { num_repeats: 2, generation: { chat_template_kwargs: { tools: [] } } }, /^generation\.chat_template_kwargs\.tools: /],
    ['where the samples come from', { num_repeats: 2, samples: { path: 'other.jsonl' } }, /^samples\.path: .* has "samples\.jsonl", got "other\.jsonl"/],
    ['two fields, of which the first is named', { num_repeats: 3, max_seq_len: 8 }, /^num_repeats: [^\n]*$/],
  ]; // prettier-ignore
  for (const [what, fields, expected] of differences) {
    test(`refuses another request that differs in ${what}`, async (t) => {
      const { store } = await temporaryStore(t);
      await store.createBatch(batch);
      const other = { ...batch, request: requestOf(fields) };
      await assert.rejects(store.createBatch(other), faultOf('InvalidBatchRequest', expected));
      assert.deepEqual(await store.findRequest(BATCH), request);
    });
  }

  test('tells an empty list from an empty object', async (t) => {
    const { store } = await temporaryStore(t);
    const kwargs = (tools: unknown) =>
      requestOf({ generation: { chat_template_kwargs: { tools } } });
    await store.createBatch({ ...batch, request: kwargs({}) });
    await assert.rejects(
      store.createBatch({ ...batch, request: kwargs([]) }),
      faultOf('InvalidBatchRequest', 'chat_template_kwargs.tools: the batch of this id has {}, got []'), // prettier-ignore
    );
  });

  test('refuses other samples under its request, and names the first row that differs', async (t) => {
    const { store } = await temporaryStore(t);
    await store.createBatch(batch);
    const changed = [samples[0] ?? '', sampleOf('changed'), sampleOf('also')];
    await assert.rejects(
      store.createBatch({ ...batch, samples: changed }),
      faultOf('InvalidBatchRequest', /^samples row 1: differs .*3 samples there, 3 here/),
    );
    const longer = [...samples, sampleOf('four')];
    await assert.rejects(
      store.createBatch({ ...batch, samples: longer }),
      faultOf('InvalidBatchRequest', /^samples row 3: differs .*3 samples there, 4 here/),
    );
    await assert.rejects(
      store.createBatch({ ...batch, samples: samples.slice(0, 2) }),
      faultOf('InvalidBatchRequest', /3 samples there, 2 here/),
    );
  });
});

describe('a sample', () => {
  test('is read by its byte offset, whatever characters stand before it', async (t) => {
    const { store } = await temporaryStore(t);
    const contents = ['é', '漢字', '😀\u2028', ' ', 'a\nb', 'plain'];
    const rows = contents.map((content, i) => sampleOf(content, { column: `${i}é` }));
    await store.createBatch({ ...batch, samples: rows });
    for (const [row, content] of [...contents.entries()].reverse()) {
      const sample = await store.readSample({ batch_id: BATCH, row });
      assert.equal(sample.message_log[0]?.content, content);
      assert.equal(sample['column'], `${row}é`);
    }
  });

  test('that is not there is a StoreFault that names it', async (t) => {
    const { store } = await temporaryStore(t);
    await store.createBatch(batch);
    await assert.rejects(
      store.readSample({ batch_id: BATCH, row: 3 }),
      faultOf('StoreFault', 'sample 3 of batch'),
    );
  });

  test('of a manifest that lost its end is a StoreFault, not half a sample', async (t) => {
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
});

describe('the journals of a batch', () => {
  test('are listed by place, and nothing that stands beside them', async (t) => {
    const { store, root } = await temporaryStore(t);
    await store.createBatch(batch);
    assert.deepEqual(await store.listJournals(BATCH), []);
    const places = [
      { row: 0, repeat: 10 },
      { row: 0, repeat: 2 },
      { row: 12, repeat: 0 },
    ];
    for (const place of places) {
      const journal = await store.claim({ batch_id: BATCH, ...place }, { activity: 'x' });
      await journal.release();
    }
    for (const name of ['0-1.jsonl.tmp', 'x0-1.jsonl', '0-1', '0.jsonl'])
      await writeFile(path.join(root, BATCH, 'journals', name), '');
    const listed = await store.listJournals(BATCH);
    assert.deepEqual(listed.toSorted((a, b) => a.row - b.row || b.repeat - a.repeat), places); // prettier-ignore
  });
});
