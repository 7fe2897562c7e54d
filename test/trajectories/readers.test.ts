/** Journals hold prompts, tokens and the cookies of sessions. */
import assert from 'node:assert/strict';
import { readdir, stat } from 'node:fs/promises';
import path from 'node:path';
import { describe, test } from 'node:test';
import type { TestContext } from 'node:test';
import type { Readers } from '../../src/platform/files.js';
import { createFileStore } from '../../src/trajectories/files/file-store.js';
import { requestOf, sampleOf, temporaryFolder } from '../fakes/temporary-store.js';

/** The modes of all that a batch leaves, from its first journal to its metrics, by whether it is a directory. */
async function modesOf(
  t: TestContext,
  readers?: Readers,
): Promise<{ files: Set<string>; directories: Set<string> }> {
  const root = path.join(await temporaryFolder(t), 'new', 'trajectories');
  const store = createFileStore({ root, max_cached_bytes: 0, ...(readers && { readers }) });
  const batch = { batch_id: 'b', request: requestOf(), samples: [sampleOf('x')] };
  await store.createBatch(batch);
  const journal = await store.claim({ batch_id: 'b', row: 0, repeat: 0 }, { activity: 'test' });
  await journal.commit();
  const outputs = store.outputs('b');
  const part = { first: 0, last: 0 };
  // An attempt that continues another one's work, and one that closes.
  for (const closes of [false, true]) {
    const writer = await outputs.openPart(part, null);
    await writer.write({ row: '{}', summary: '{}', valid: true, sequences: () => [] });
    await (closes ? writer.close() : writer.abandon());
  }
  const found = { files: new Set<string>(), directories: new Set<string>() };
  const look = async (): Promise<void> => {
    const parent = path.dirname(root);
    const names = await readdir(parent, { recursive: true, withFileTypes: true });
    for (const entry of names) {
      const { mode } = await stat(path.join(entry.parentPath, entry.name));
      found[entry.isDirectory() ? 'directories' : 'files'].add((mode & 0o777).toString(8));
    }
    found.directories.add(((await stat(parent)).mode & 0o777).toString(8));
  };
  await look();
  await outputs.join([part]);
  await outputs.putMetrics({});
  await look();
  return found;
}

describe('what a store writes', () => {
  for (const [readers, files, directories] of [
    [undefined, '600', '700'],
    ['owner', '600', '700'],
    ['group', '640', '750'],
    ['everyone', '644', '755'],
  ] as const) {
    test(`is for ${readers ?? 'its owner, where nothing is said,'} to read, whatever the umask lets through`, async (t) => {
      const before = process.umask(0);
      t.after(() => process.umask(before));
      const found = await modesOf(t, readers);
      assert.deepEqual([...found.files], [files]);
      assert.deepEqual([...found.directories], [directories]);
    });
  }

  test('is for fewer where the umask says so', async (t) => {
    const before = process.umask(0o027);
    t.after(() => process.umask(before));
    const found = await modesOf(t, 'everyone');
    assert.deepEqual([...found.files], ['640']);
    assert.deepEqual([...found.directories], ['750']);
  });
});
