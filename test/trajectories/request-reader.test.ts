import assert from 'node:assert/strict';
import { mkdir, readFile, stat, utimes, writeFile } from 'node:fs/promises';
import path from 'node:path';
import type { TestContext } from 'node:test';
import { describe, test } from 'node:test';
import { createDisk } from '../../src/platform/files.js';
import { createBatchFiles } from '../../src/trajectories/files/batch.js';
import { createRequestReader } from '../../src/trajectories/kept.js';
import { requestOf, temporaryFolder } from '../fakes/temporary-store.js';

/** Whole seconds: what is set is what is read. */
const WHEN = 1_700_000_000;

/** Batches, whose request differs in its seed and can be changed without a trace. */
async function batches(t: TestContext) {
  const root = await temporaryFolder(t);
  const fileOf = (name: string): string => path.join(root, name, 'batch.json');
  const { look, read } = createBatchFiles({ root, disk: createDisk('owner') });
  return {
    files: { look, read },
    put: async (name: string) => {
      await mkdir(path.join(root, name));
      await writeFile(fileOf(name), JSON.stringify(requestOf({ generation: { seed: 1 } })));
      await utimes(fileOf(name), WHEN, WHEN);
      return (await stat(fileOf(name))).size;
    },
    changeUnseen: async (name: string) => {
      const text = await readFile(fileOf(name), 'utf8');
      await writeFile(fileOf(name), text.replace('"seed":1', '"seed":2'));
      await utimes(fileOf(name), WHEN, WHEN);
    },
  };
}

describe('requests that were read', () => {
  test('are kept as long as their files fit, and the oldest is read again', async (t) => {
    const { files, put, changeUnseen } = await batches(t);
    const sizes = [await put('a'), await put('b'), await put('c')];
    const read = createRequestReader(files, (sizes[0] ?? 0) * 2);
    const seedOf = async (name: string): Promise<number | null | undefined> =>
      (await read(name))?.generation.seed;
    for (const name of ['a', 'b']) assert.equal(await seedOf(name), 1);
    for (const name of ['a', 'b']) await changeUnseen(name);
    assert.deepEqual([await seedOf('a'), await seedOf('b')], [1, 1]);
    assert.equal(await seedOf('c'), 1);
    assert.deepEqual([await seedOf('b'), await seedOf('a')], [1, 2]);
  });

  test('are kept one at a time where there is no room: a batch does not parse its own for each rollout', async (t) => {
    const { files, put, changeUnseen } = await batches(t);
    await put('a');
    await put('b');
    const read = createRequestReader(files, 0);
    const seedOf = async (name: string): Promise<number | null | undefined> =>
      (await read(name))?.generation.seed;
    assert.equal(await seedOf('a'), 1);
    await changeUnseen('a');
    assert.equal(await seedOf('a'), 1);
    await seedOf('b');
    assert.equal(await seedOf('a'), 2);
  });
});
