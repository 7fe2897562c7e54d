import assert from 'node:assert/strict';
import { appendFile, readFile, rm, stat, truncate, writeFile } from 'node:fs/promises';
import { describe, test } from 'node:test';
import { emptyTrajectory } from '../../src/model/journal/trajectory.js';
import { createFileStore } from '../../src/trajectories/files/file-store.js';
import type { Fold } from '../../src/trajectories/kept.js';
import { createFoldCache } from '../../src/trajectories/kept.js';
import type { TrajectoryStore } from '../../src/trajectories/trajectory-store.js';
import { author, entryOf, wholeTurn } from '../fakes/journal-lines.js';
import { REF, temporaryStore } from '../fakes/temporary-store.js';

const a = author('ignored');
const by = { activity: 'playTurns' };

async function playTurns(store: TrajectoryStore, count: number): Promise<void> {
  const journal = await store.claim(REF, by);
  if (journal.trajectory.start === null) await journal.append(entryOf(a.start()));
  for (let i = 0; i < count; i++)
    for (const line of wholeTurn(a, { turn: journal.trajectory.observations.length, ids: [1, 2] }))
      await journal.append(entryOf(line));
  await journal.commit();
}

const turnsOf = async (store: TrajectoryStore): Promise<number> =>
  (await store.readTrajectory(REF)).observations.length;

describe('a journal that this process has written', () => {
  test('is not read again from its beginning', async (t) => {
    const { store, elsewhere, journalFile } = await temporaryStore(t);
    await playTurns(store, 3);
    const bytes = await readFile(journalFile());
    // Damaged after the first claim, by which a file is recognised, so a reader of that part finds nothing.
    await writeFile(journalFile(), bytes.fill(' ', bytes.indexOf('\n', 1) + 1), { flag: 'r+' });
    assert.equal(await turnsOf(elsewhere()), 0);
    await playTurns(store, 1);
    await playTurns(store, 1);
    assert.equal(await turnsOf(store), 5);
  });

  test('is read on where others have written', async (t) => {
    const { store, elsewhere } = await temporaryStore(t);
    const other = elsewhere();
    for (let round = 0; round < 4; round++) {
      await playTurns(store, 1);
      await playTurns(other, 1);
    }
    assert.equal(await turnsOf(store), 8);
    assert.deepEqual(await other.readTrajectory(REF), await elsewhere().readTrajectory(REF));
  });

  test('is read from its beginning when it has become shorter', async (t) => {
    const { store, elsewhere, journalFile } = await temporaryStore(t);
    await playTurns(store, 1);
    const { size } = await stat(journalFile());
    await playTurns(store, 2);
    await truncate(journalFile(), size);
    assert.equal(await turnsOf(store), 1);
    await playTurns(store, 1);
    assert.equal(await turnsOf(elsewhere()), 2);
  });

  test('starts anew when it was deleted', async (t) => {
    const { store, journalFile } = await temporaryStore(t);
    await playTurns(store, 3);
    await rm(journalFile());
    await playTurns(store, 1);
    assert.equal(await turnsOf(store), 1);
  });

  test('is read from its beginning when another has taken its name, and even its inode', async (t) => {
    const { store, elsewhere, journalFile } = await temporaryStore(t);
    await playTurns(store, 2);
    await rm(journalFile());
    await playTurns(elsewhere(), 5);
    assert.equal(await turnsOf(store), 5);
    await playTurns(store, 1);
    // Rewritten in place: the inode is the same for certain.
    const { store: another, journalFile: anothersFile } = await temporaryStore(t);
    await playTurns(another, 8);
    await writeFile(journalFile(), await readFile(anothersFile()), { flag: 'r+' });
    assert.equal(await turnsOf(store), 8);
  });

  test('is not kept by an attempt that failed', async (t) => {
    const { store, elsewhere } = await temporaryStore(t);
    await playTurns(store, 1);
    const failing = await store.claim(REF, { ...by, attempt: 2 });
    await failing.append(entryOf(a.chunk({ turn: 1, token_ids: [9] })));
    await failing.release();
    const read = await store.readTrajectory(REF);
    assert.deepEqual(read, await elsewhere().readTrajectory(REF));
    assert.equal(read.attempts, 2);
  });

  test('is folded the same with a cache of any size', async (t) => {
    const { root, elsewhere } = await temporaryStore(t);
    for (const max_cached_bytes of [0, 1000, 10_000]) {
      const store = createFileStore({ root, max_cached_bytes });
      await playTurns(store, 2);
      await playTurns(store, 1);
      const fresh = await elsewhere().readTrajectory(REF);
      assert.deepEqual(await store.readTrajectory(REF), fresh);
    }
  });

  test('with a torn tail is read on from its last whole line', async (t) => {
    const { store, elsewhere, journalFile } = await temporaryStore(t);
    await playTurns(store, 1);
    const journal = await store.claim(REF, by);
    await appendFile(journalFile(), '{"kind":"chunk"');
    await journal.commit();
    await playTurns(elsewhere(), 1);
    assert.equal(await turnsOf(store), 2);
  });
});

describe('the cache', () => {
  const fold = (taken_bytes: number): Fold => ({
    trajectory: emptyTrajectory(),
    offset: 1000,
    head: 'x',
    taken_bytes,
  });

  test('gives a fold out once: two attempts never share one', () => {
    const cache = createFoldCache({ max_bytes: 100 });
    const mine = fold(10);
    cache.put('a', mine);
    assert.equal(cache.take('a'), mine);
    assert.equal(cache.take('a'), null);
  });

  test('drops the least recently used when the journals outgrow it', () => {
    const cache = createFoldCache({ max_bytes: 100 });
    for (const file of ['a', 'b', 'c']) cache.put(file, fold(30));
    const again = cache.take('a');
    assert.ok(again !== null);
    cache.put('a', again);
    cache.put('d', fold(30));
    assert.deepEqual(
      ['a', 'b', 'c', 'd'].map((file) => cache.take(file) !== null),
      [true, false, true, true],
    );
  });

  test('counts a file once however often it is put, and has its room back when it is taken', () => {
    const cache = createFoldCache({ max_bytes: 100 });
    for (const bytes of [20, 30, 40]) cache.put('a', fold(bytes));
    cache.put('b', fold(60));
    assert.notEqual(cache.take('a'), null);
    cache.put('c', fold(40));
    assert.notEqual(cache.take('b'), null);
  });

  test('does not keep what is larger than all of it', () => {
    const cache = createFoldCache({ max_bytes: 100 });
    cache.put('a', fold(101));
    assert.equal(cache.take('a'), null);
  });
});
