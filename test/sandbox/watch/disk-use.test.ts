/** What processes hold of files that are deleted, where some of them are about to end. */
import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { writeFile } from 'node:fs/promises';
import path from 'node:path';
import type { TestContext } from 'node:test';
import { describe, test } from 'node:test';
import type { Use } from '../../../src/sandbox/watch/disk-use.js';
import { useOf } from '../../../src/sandbox/watch/disk-use.js';
import type { Process } from '../../../src/sandbox/watch/process-tree.js';
import { processesBelow } from '../../../src/sandbox/watch/process-tree.js';
import { temporaryFolder } from '../../fakes/temporary-store.js';

const skip = process.platform === 'linux' ? false : 'this system has no /proc';
const BYTES = 100_000;

/** A process that was seen, and has ended since. */
async function ended(t: TestContext): Promise<Process> {
  const child = spawn('sleep', ['60'], { stdio: 'ignore' });
  t.after(() => child.kill('SIGKILL'));
  await once(child, 'spawn');
  const [seen] = processesBelow(child.pid ?? 0).processes;
  child.kill('SIGKILL');
  await once(child, 'exit');
  assert.ok(seen);
  return seen;
}

async function useIn(
  t: TestContext,
  { one, may_end }: { one: Process; may_end: boolean },
): Promise<Use | null> {
  const folder = await temporaryFolder(t);
  await writeFile(path.join(folder, 'file'), Buffer.alloc(BYTES));
  return useOf({ folder, mounts: [], disk_bound: 1e9 }, { processes: [one], may_end });
}

describe('the use of files', { skip }, () => {
  test('is not known where a process ends meanwhile', async (t) => {
    assert.equal(await useIn(t, { one: await ended(t), may_end: false }), null);
  });

  test('is that of the others where one may end', async (t) => {
    const use = await useIn(t, { one: await ended(t), may_end: true });
    assert.ok(use !== null && use.disk >= BYTES && use.disk < Infinity, JSON.stringify(use));
  });

  test('is not known where a process has other threads, which may hold files', async (t) => {
    const one = { ...(await ended(t)), tasks: 2 };
    assert.equal(await useIn(t, { one, may_end: true }), null);
  });
});
