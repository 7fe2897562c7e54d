import assert from 'node:assert/strict';
import { readdir } from 'node:fs/promises';
import path from 'node:path';
import test from 'node:test';
import fc from 'fast-check';
import { onEachStore } from '../fakes/stores.js';
import { faultOf, temporaryStore } from '../fakes/temporary-store.js';

const SERIES = ['_policy', 'default'] as const;

onEachStore((open) => {
  test('a fact is put once: the first text is kept, and the same text again is no conflict', async (t) => {
    const { store, elsewhere } = await open(t);
    assert.equal(await store.facts.put({ series: SERIES, n: 0, text: 'a' }), true);
    assert.equal(await elsewhere().facts.put({ series: SERIES, n: 0, text: 'b' }), false);
    assert.equal(await elsewhere().facts.put({ series: SERIES, n: 0, text: 'a' }), true);
    assert.equal(await elsewhere().facts.find(SERIES, 0), 'a');
    assert.equal(await store.facts.find(SERIES, 1), null);
  });

  test('of writers that race for the next number one wins', async (t) => {
    const { store } = await open(t);
    const won = await Promise.all(
      Array.from({ length: 20 }, (_, i) =>
        store.facts.put({ series: SERIES, n: 0, text: `${i}`.repeat(1000) }),
      ),
    );
    assert.equal(won.filter(Boolean).length, 1);
    const winner = won.indexOf(true);
    assert.equal(await store.facts.find(SERIES, 0), `${winner}`.repeat(1000));
  });

  test('the last fact is found from any position of a reader', async (t) => {
    const { store } = await open(t);
    assert.equal(await store.facts.last(SERIES, -1), null);
    for (let n = 0; n < 40; n++) await store.facts.put({ series: SERIES, n, text: `${n}` });
    await fc.assert(
      fc.asyncProperty(fc.integer({ min: -1, max: 38 }), async (known) => {
        assert.deepEqual(await store.facts.last(SERIES, known), {
          series: SERIES,
          n: 39,
          text: '39',
        });
      }),
    );
    assert.equal(await store.facts.last(SERIES, 39), null);
  });

  test('no name of a series leads out of the store', async (t) => {
    const { store } = await open(t);
    for (const name of ['..', '.', '', 'a/b', 'a\\b', '.hidden', 'x'.repeat(300)])
      await assert.rejects(
        store.facts.put({ series: ['_policy', name], n: 0, text: '' }),
        faultOf('InvalidBatchRequest', /series/),
      );
  });
});

test('in files a race of writers leaves no half-written file', async (t) => {
  const { store, root } = await temporaryStore(t);
  const texts = Array.from({ length: 20 }, (_, i) => `${i}`.repeat(1000));
  await Promise.all(texts.map((text) => store.facts.put({ series: SERIES, n: 0, text })));
  assert.deepEqual(await readdir(path.join(root, ...SERIES)), ['0.json']);
});
