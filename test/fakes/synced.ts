import type { FileHandle } from 'node:fs/promises';
import { open } from 'node:fs/promises';
import type { TestContext } from 'node:test';

/** Calls back with the inode of each file and directory that is synced through a handle, when it is. */
export async function hearSyncs(t: TestContext, heard: (inode: number) => void): Promise<void> {
  const handle = await open('.', 'r');
  t.after(() => handle.close());
  const prototype = Object.getPrototypeOf(handle) as FileHandle;
  t.mock.method(prototype, 'sync', async function (this: FileHandle) {
    heard((await this.stat()).ino);
  });
}
