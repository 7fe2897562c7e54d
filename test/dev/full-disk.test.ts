/** What a stack's folder shows of a server that cannot write: on a disk of its own, so that nothing else is touched. */
import assert from 'node:assert/strict';
import { execFile } from 'node:child_process';
import { rm, writeFile } from 'node:fs/promises';
import path from 'node:path';
import { test } from 'node:test';
import { promisify } from 'node:util';
import { whySilent } from '../../dev/running-stack.js';
import { temporaryFolder } from './fakes.js';

const run = promisify(execFile);

test('the server of a stack is said to be silent for its disk once that is full, and no longer', async (t) => {
  const disk = await temporaryFolder(t);
  const isMounted = await run('mount', ['-t', 'tmpfs', '-o', 'size=4m', 'tmpfs', disk]).then(
    () => true,
    () => false,
  );
  if (!isMounted) {
    t.skip('this user may not mount');
    return;
  }
  try {
    assert.equal(await whySilent(disk), null);
    const ballast = path.join(disk, 'ballast');
    await writeFile(ballast, Buffer.alloc(8 << 20)).catch(() => undefined);
    const full = `the disk of ${disk} is full, where the server has its database`;
    assert.equal(await whySilent(disk), full);
    await rm(ballast);
    assert.equal(await whySilent(disk), null);
    assert.equal(await whySilent(path.join(disk, 'none')), null, 'nobody knows');
  } finally {
    await run('umount', ['-l', disk]);
  }
});
