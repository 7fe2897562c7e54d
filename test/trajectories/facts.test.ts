import assert from 'node:assert/strict';
import { mkdir, readdir, writeFile } from 'node:fs/promises';
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

  test('the last fact is found by a reader who is so far behind that its own is forgotten', async (t) => {
    const { store, elsewhere } = await open(t);
    for (let n = 0; n < 12; n++) await store.facts.put({ series: SERIES, n, text: `${n}` });
    await store.facts.forget(SERIES, [0, 1, 2, 3, 4, 5, 6, 7]);
    const newest = { series: SERIES, n: 11, text: '11' };
    for (let known = -1; known < 11; known++)
      assert.deepEqual(await elsewhere().facts.last(SERIES, known), newest, `known ${known}`);
    await store.facts.forget(SERIES, [11]);
    // Nothing is above it, though it is gone.
    assert.equal(await store.facts.last(SERIES, 11), null);
  });

  test('facts that are forgotten are gone, and the others are found, whatever is missing', async (t) => {
    const { store, elsewhere, most_runs } = await open(t);
    const numbers = fc.uniqueArray(fc.nat({ max: 20 }));
    const other = elsewhere();
    let run = 0;
    await fc.assert(
      fc.asyncProperty(numbers, numbers, async (put, forgotten) => {
        for (const kind of ['admitted', 'steps']) {
          const series = ['stream', `${run++}`, kind] as const;
          for (const n of put) await store.facts.put({ series, n, text: `${n}` });
          await store.facts.forget(series, forgotten);
          await other.facts.forget(series, forgotten.slice(1));
          const left = put.filter((n) => !forgotten.includes(n));
          for (const n of put)
            assert.equal(await store.facts.find(series, n), left.includes(n) ? `${n}` : null);
          const last = left.length === 0 ? null : Math.max(...left);
          const found = await other.facts.last(series, -1);
          assert.deepEqual(found, last === null ? null : { series, n: last, text: `${last}` });
          for (const n of forgotten.slice(0, 1))
            assert.equal(await store.facts.put({ series, n, text: 'again' }), true);
        }
      }),
      { numRuns: Math.min(100, most_runs / 2) },
    );
  });

  test('no name of a series leads out of the store', async (t) => {
    const { store } = await open(t);
    for (const name of ['..', '.', '', 'a/b', 'a\\b', '.hidden', 'x'.repeat(300)]) {
      const series = ['_policy', name] as const;
      for (const refused of [
        store.facts.put({ series, n: 0, text: '' }),
        store.facts.last(series, -1),
        store.facts.forget(series, [0]),
      ])
        await assert.rejects(refused, faultOf('InvalidBatchRequest', /series/));
    }
  });
});

test('in files a race of writers leaves no half-written file', async (t) => {
  const { store, root } = await temporaryStore(t);
  const texts = Array.from({ length: 20 }, (_, i) => `${i}`.repeat(1000));
  await Promise.all(texts.map((text) => store.facts.put({ series: SERIES, n: 0, text })));
  assert.deepEqual(await readdir(path.join(root, ...SERIES)), ['0.json']);
});

test('in files, what is forgotten leaves no folder, and keeps nobody from putting beside it', async (t) => {
  const { store, root } = await temporaryStore(t);
  const live = async (row: number): Promise<void> => {
    const series = ['batch', 'answerers', `${row}-0`] as const;
    for (let n = 0; n < 40; n++) {
      assert.equal(await store.facts.put({ series, n: 0, text: 'here' }), true);
      await store.facts.forget(series, [0]);
    }
  };
  await Promise.all(Array.from({ length: 8 }, (_, row) => live(row)));
  assert.deepEqual(await readdir(root), []);
});

test('in files, what others have put beside the facts is none of them, and stays', async (t) => {
  const { store, root } = await temporaryStore(t);
  const series = ['stream', 'steps'] as const;
  const steps = path.join(root, ...series);
  for (const n of [0, 1, 2]) await store.facts.put({ series, n, text: `${n}` });
  await mkdir(path.join(steps, '7'));
  await mkdir(path.join(steps, 'mine'));
  await writeFile(path.join(steps, '1', 'notes.txt'), 'mine');
  assert.equal((await store.facts.last(series, -1))?.n, 2);
  await store.facts.forget(series, [0, 1]);
  assert.deepEqual((await readdir(steps)).sort(), ['1', '2', '7', 'mine']);
  assert.deepEqual(await readdir(path.join(steps, '1')), ['notes.txt']);
});
