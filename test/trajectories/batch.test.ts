import assert from 'node:assert/strict';
import { readdir, writeFile } from 'node:fs/promises';
import path from 'node:path';
import { describe, test } from 'node:test';
import { author, entryOf } from '../fakes/journal-lines.js';
import { onEachStore } from '../fakes/stores.js';
import { BATCH, REF, faultOf, requestOf, sampleOf } from '../fakes/temporary-store.js';
import { plainly } from '../fakes/plainly.js';

const request = requestOf({ num_repeats: 2 });
const samples = [sampleOf('one'), sampleOf('two'), sampleOf('three')];
const batch = { batch_id: BATCH, request, samples };

onEachStore((open) => {
  describe('creating a batch', () => {
    test('puts the normalised request and the samples as they came', async (t) => {
      const { store, elsewhere } = await open(t);
      assert.deepEqual(await store.createBatch(batch), { existed: false });
      assert.deepEqual(plainly(await elsewhere().findRequest(BATCH)), request);
      assert.equal(request.schema_version, 1);
      assert.equal(await store.sampleCount(BATCH), 3);
      for (const [row, sample] of samples.entries())
        assert.equal(await store.readSampleText({ batch_id: BATCH, row }), sample);
    });

    test('a batch that is not there is null', async (t) => {
      const { store } = await open(t);
      assert.equal(await store.findRequest(BATCH), null);
    });

    test('of a newer release is refused by its fields, with what to do', async (t) => {
      const { store, elsewhere } = await open(t);
      const newer = { ...request, fairness: 1, generation: { ...request.generation, beams: 2 } };
      await store.createBatch({ ...batch, request: newer });
      await assert.rejects(
        elsewhere().findRequest(BATCH),
        faultOf(
          'StoreFault',
          'generation.beams: unknown field; fairness: unknown field',
          'start workers of the release that wrote it',
        ),
      );
    });

    test('two that race for the id with the same request both succeed', async (t) => {
      const { store, elsewhere } = await open(t);
      await Promise.all(Array.from({ length: 6 }, () => elsewhere().createBatch(batch)));
      assert.deepEqual(plainly(await store.findRequest(BATCH)), request);
      assert.equal(await store.sampleCount(BATCH), 3);
    });

    test('two that race with different requests: one has the id, the other is refused', async (t) => {
      const { store, elsewhere } = await open(t);
      const requests = [1, 2, 3, 4].map((num_repeats) => requestOf({ num_repeats }));
      const results = await Promise.allSettled(
        requests.map((mine) => elsewhere().createBatch({ ...batch, request: mine })),
      );
      const won = requests.filter((_, i) => results[i]?.status === 'fulfilled');
      assert.equal(won.length, 1);
      assert.deepEqual(plainly(await store.findRequest(BATCH)), won[0]);
      for (const result of results)
        if (result.status === 'rejected')
          assert.ok(faultOf('InvalidBatchRequest', 'num_repeats: ')(result.reason));
    });

    test('two that race with different samples: one has the id, and its manifest is whole', async (t) => {
      const { store, elsewhere } = await open(t);
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

  describe('the list of batches', () => {
    test('has each by its id, whatever its name on a disk, and none before there is one', async (t) => {
      const { store, elsewhere } = await open(t);
      assert.deepEqual(await store.listBatches(), []);
      const ids = ['step-1', 'nightly-2026-11-25T10:00:00Z', 'con', 'ends.'];
      for (const batch_id of ids) await store.createBatch({ ...batch, batch_id });
      const listed = await elsewhere().listBatches();
      assert.deepEqual(listed.map(({ batch_id }) => batch_id).sort(), ids.sort());
      for (const { created_ms } of listed)
        assert.ok(created_ms === null || Math.abs(Date.now() - created_ms) < 60_000);
    });
  });

  describe('an existing batch', () => {
    test('continues with the same request', async (t) => {
      const { store, elsewhere } = await open(t);
      await store.createBatch(batch);
      assert.deepEqual(await elsewhere().createBatch(batch), { existed: true });
    });

    test('opens again when it was closed: metrics.json and parts go, the rows stay', async (t) => {
      const { store, outputs: root } = await open(t);
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

    const differences: [string, Record<string, unknown>, RegExp][] = [
      [
        'a number',
        { num_repeats: 3 },
        /^num_repeats: the batch of this id has 2, got 3; use another batch id$/,
      ],
      [
        'a nested field',
        { num_repeats: 2, generation: { top_p: 0.5 } },
        /^generation\.top_p: .* has 1, got 0\.5/,
      ],
      [
        'metadata',
        { num_repeats: 2, metadata: { step: 2 } },
        /^metadata\.step: .* has nothing, got 2/,
      ],
      [
        'an empty list for an empty object',
        { num_repeats: 2, generation: { chat_template_kwargs: { tools: [] } } },
        /^generation\.chat_template_kwargs\.tools: /,
      ],
      [
        'where the samples come from',
        { num_repeats: 2, samples: { path: 'other.jsonl' } },
        /^samples\.path: .* has "samples\.jsonl", got "other\.jsonl"/,
      ],
      [
        'two fields, of which the first is named',
        { num_repeats: 3, max_seq_len: 8 },
        /^num_repeats: [^\n]*$/,
      ],
    ];
    for (const [what, fields, expected] of differences) {
      test(`refuses another request that differs in ${what}`, async (t) => {
        const { store } = await open(t);
        await store.createBatch(batch);
        const other = { ...batch, request: requestOf(fields) };
        await assert.rejects(store.createBatch(other), faultOf('InvalidBatchRequest', expected));
        assert.deepEqual(plainly(await store.findRequest(BATCH)), request);
      });
    }

    test('tells an empty list from an empty object', async (t) => {
      const { store } = await open(t);
      const kwargs = (tools: unknown) =>
        requestOf({ generation: { chat_template_kwargs: { tools } } });
      await store.createBatch({ ...batch, request: kwargs({}) });
      await assert.rejects(
        store.createBatch({ ...batch, request: kwargs([]) }),
        faultOf(
          'InvalidBatchRequest',
          'chat_template_kwargs.tools: the batch of this id has {}, got []',
        ),
      );
    });

    test('refuses other samples under its request, and names the first row that differs', async (t) => {
      const { store } = await open(t);
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
    test('is read by its byte offset, whatever characters precede it', async (t) => {
      const { store } = await open(t);
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
      const { store } = await open(t);
      await store.createBatch(batch);
      await assert.rejects(
        store.readSample({ batch_id: BATCH, row: 3 }),
        faultOf('StoreFault', 'sample 3 of batch'),
      );
    });
  });

  describe('the journals of a batch', () => {
    test('are listed by place, and none of a batch whose name begins like it', async (t) => {
      const { store } = await open(t);
      await store.createBatch(batch);
      assert.deepEqual(await store.listJournals(BATCH), []);
      const places = [
        { row: 0, repeat: 10 },
        { row: 0, repeat: 2 },
        { row: 12, repeat: 0 },
      ];
      const others = [`${BATCH}0`, `${BATCH}-1`, BATCH.slice(1)].map((batch_id) => ({
        batch_id,
        row: 5,
        repeat: 5,
      }));
      for (const ref of [...places.map((place) => ({ batch_id: BATCH, ...place })), ...others]) {
        const journal = await store.claim(ref, { activity: 'x' });
        await journal.release();
      }
      const listed = await store.listJournals(BATCH);
      assert.deepEqual(
        listed.toSorted((a, b) => a.row - b.row || b.repeat - a.repeat),
        places,
      );
    });

    test('say how long they are, and that they have grown', async (t) => {
      const { store, elsewhere } = await open(t);
      assert.equal(await store.journalSize(REF), 0);
      const journal = await store.claim(REF, { activity: 'x' });
      const claimed = await elsewhere().journalSize(REF);
      assert.ok(claimed > 0);
      await journal.append(entryOf(author('x').start()));
      await journal.commit();
      assert.ok((await elsewhere().journalSize(REF)) > claimed + 100);
    });
  });
});
