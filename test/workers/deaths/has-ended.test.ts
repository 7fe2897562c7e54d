import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { hostname } from 'node:os';
import { describe, test } from 'node:test';
import { workerIdentity } from '../../../src/temporal/pollers.js';
import { identify, runOf } from '../../../src/platform/process/identity.js';
import { hasEnded } from '../../../src/workers/deaths/has-ended.js';

const host = hostname();
const ids = { store: '0123456789ab', results: null };

async function nameOf(pid: number): Promise<{ run: string; identity: string }> {
  const run = (await runOf(await identify(pid))) ?? assert.fail('no start time');
  return { run, identity: workerIdentity({ pid, host, run, ...ids }, ['a']) };
}

describe('a worker of this machine', () => {
  test('has ended once its process has, and not before', async () => {
    const child = spawn(process.execPath, ['-e', 'setInterval(() => undefined, 1000)']);
    await once(child, 'spawn');
    const { identity } = await nameOf(child.pid!);
    assert.equal(await hasEnded(identity), false);
    child.kill('SIGKILL');
    await once(child, 'exit');
    assert.equal(await hasEnded(identity), true);
  });

  test('has ended where another process has its number', async () => {
    const { run, identity } = await nameOf(process.pid);
    assert.equal(await hasEnded(identity), false);
    const [place = ''] = run.split('-');
    const earlier = workerIdentity(
      { pid: process.pid, host, run: `${place}-00000000`, ...ids },
      null,
    );
    assert.equal(await hasEnded(earlier), true);
  });

  test('is not looked for by its number in another container or on another host', async () => {
    const { run } = await nameOf(process.pid);
    const [, started = ''] = run.split('-');
    const pid = 2 ** 22 + 1;
    for (const other of [
      { host, run: `000000-${started}` },
      { host: 'elsewhere', run },
    ])
      assert.equal(await hasEnded(workerIdentity({ pid, ...other, ...ids }, null)), false);
    assert.equal(await hasEnded(workerIdentity({ pid, host, run, ...ids }, null)), true);
  });
});
