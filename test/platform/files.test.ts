import assert from 'node:assert/strict';
import { readdir, readFile, stat, writeFile } from 'node:fs/promises';
import path from 'node:path';
import { describe, test } from 'node:test';
import { createDisk, replaceFile, syncDirectory } from '../../src/platform/files.js';
import { temporaryFolder } from '../fakes/temporary-store.js';

const modeOf = async (file: string): Promise<string> =>
  ((await stat(file)).mode & 0o777).toString(8);

describe('a file that is replaced', () => {
  test('is whole whenever it is read while several writers replace it, and nothing stays beside it', async (t) => {
    const folder = await temporaryFolder(t);
    const file = path.join(folder, 'a');
    const texts = Array.from({ length: 8 }, (_, n) => `${n}`.repeat(100_000));
    await replaceFile(file, { content: 'before' });
    const over = new AbortController();
    const reading = (async () => {
      while (!over.signal.aborted) {
        const text = await readFile(file, 'utf8');
        assert.ok(text === 'before' || texts.includes(text), `${text.length} characters`);
      }
    })();
    await Promise.all(texts.map((content) => replaceFile(file, { content })));
    over.abort();
    await reading;
    assert.ok(texts.includes(await readFile(file, 'utf8')));
    assert.deepEqual(await readdir(folder), ['a']);
  });

  test('stays as it was where writing the new one fails', async (t) => {
    const folder = await temporaryFolder(t);
    const file = path.join(folder, 'a');
    await writeFile(file, 'before');
    const failing = replaceFile(file, {
      content: async (handle) => {
        await handle.writeFile('half');
        throw new Error('no more');
      },
    });
    await assert.rejects(failing, /^Error: no more$/);
    assert.deepEqual(await readdir(folder), ['a']);
    assert.equal(await readFile(file, 'utf8'), 'before');
  });

  test('has the rights of the store, or those that the umask leaves', async (t) => {
    const folder = await temporaryFolder(t);
    const before = process.umask(0o027);
    t.after(() => process.umask(before));
    await replaceFile(path.join(folder, 'own'), { content: '' });
    await createDisk('owner').replaceFile(path.join(folder, 'store'), '');
    assert.equal(await modeOf(path.join(folder, 'own')), '640');
    assert.equal(await modeOf(path.join(folder, 'store')), '600');
  });
});

test('a file that is put once keeps its content, and another content is refused', async (t) => {
  const file = path.join(await temporaryFolder(t), 'a');
  const disk = createDisk('owner');
  for (const [content, isKept] of [
    ['x', true],
    ['x', true],
    ['y', false],
  ] as const)
    assert.equal(await disk.putOnce(file, content), isKept);
  assert.equal(await readFile(file, 'utf8'), 'x');
});

describe('a directory', () => {
  test('is synced for each who asks, also beside others, and one that is not there fails them all', async (t) => {
    const folder = await temporaryFolder(t);
    const missing = path.join(folder, 'missing');
    const asked = (directory: string) => Array.from({ length: 20 }, () => syncDirectory(directory));
    const [there, absent] = await Promise.all([
      Promise.allSettled(asked(folder)),
      Promise.allSettled(asked(missing)),
    ]);
    assert.deepEqual(new Set(there.map(({ status }) => status)), new Set(['fulfilled']));
    for (const one of absent) {
      assert.equal(one.status, 'rejected');
      assert.match(String(one.reason), /ENOENT/);
    }
    await syncDirectory(folder);
    await assert.rejects(syncDirectory(missing), /ENOENT/);
  });
});
