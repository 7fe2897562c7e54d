import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { readFile, readdir, writeFile, stat } from 'node:fs/promises';
import path from 'node:path';
import { describe, test } from 'node:test';
import type { TestContext } from 'node:test';
import { startChild } from '../../dev/child.js';
import { claimFolder, stackOf } from '../../dev/folder-claim.js';
import type { RunningStack } from '../../dev/running-stack.js';
import { sayRunning } from '../../dev/running-stack.js';
import { isRunning } from '../../lab/bed/process-tree.js';
import { temporaryFolder } from './fakes.js';
import { eventually } from '../../lab/bed/waiting.js';

function running(t: TestContext): number {
  const { pid = 0 } = spawn(process.execPath, ['-e', 'setInterval(() => undefined, 1000)'], {
    stdio: 'ignore',
  });
  t.after(() => {
    if (isRunning(pid)) process.kill(pid, 'SIGKILL');
  });
  return pid;
}

/** Nothing is to be said. */
function unheard(line: string): void {
  throw new Error(`said: ${line}`);
}

/** Another process that claims the folder, notes a server and is killed. */
async function deadStack(
  t: TestContext,
  { folder, serverPid }: { folder: string; serverPid: number },
) {
  const script = path.join(folder, 'other.mjs');
  const module = JSON.stringify(import.meta.resolve('../../dev/folder-claim.js'));
  await writeFile(
    script,
    `import { claimFolder } from ${module};
     const claim = await claimFolder(${JSON.stringify(path.join(folder, 'state'))}, console.log);
     await claim.noteServer(${serverPid});
     console.log('noted');
     setInterval(() => undefined, 1000);`,
  );
  const other = spawn(process.execPath, [script], {
    stdio: ['ignore', 'pipe', 'inherit'],
  });
  t.after(() => other.kill('SIGKILL'));
  await new Promise((resolve) => other.stdout.once('data', resolve));
  const kill = async (): Promise<void> => {
    const gone = new Promise((resolve) => other.once('exit', resolve));
    other.kill('SIGKILL');
    await gone;
  };
  return { kill };
}

describe('one local stack at a time has its folder', () => {
  test('is made for its user alone: it will hold a database, logs and journals', async (t) => {
    const folder = path.join(await temporaryFolder(t), 'state');
    const before = process.umask(0);
    t.after(() => process.umask(before));
    const claim = await claimFolder(folder, unheard);
    assert.equal((await stat(folder)).mode & 0o777, 0o700);
    const logFile = path.join(folder, 'logs', 'part.log');
    const options = { command: process.execPath, args: ['-e', ''], cwd: folder, env: process.env };
    await (
      await startChild({ ...options, logFile, ends: 'pipe' })
    ).exited;
    assert.equal((await stat(logFile)).mode & 0o777, 0o600);
    await claim.release();
  });

  test('a second one names the process that has it', async (t) => {
    const folder = await temporaryFolder(t);
    const claim = await claimFolder(folder, unheard);
    await assert.rejects(
      claimFolder(folder, unheard),
      new RegExp(`runs already with ${folder} \\(process ${process.pid}\\)`),
    );
    await claim.release();
    await (await claimFolder(folder, unheard)).release();
    assert.deepEqual(await readdir(folder), []);
  });

  test('a killed stack loses it; the Temporal server that it left is ended, with a message', async (t) => {
    const folder = await temporaryFolder(t);
    const serverPid = running(t);
    const other = await deadStack(t, { folder, serverPid });
    const state = path.join(folder, 'state');
    await assert.rejects(claimFolder(state, unheard), /runs already/);
    await other.kill();
    const said: string[] = [];
    const claim = await claimFolder(state, (line) => said.push(line));
    await eventually('the server is gone', () => !isRunning(serverPid));
    assert.match(
      said.join(),
      new RegExp(`earlier local stack left running \\(process ${serverPid}\\)`),
    );
    await claim.release();
  });

  test('a process that has the number of a dead server by chance is not touched', async (t) => {
    const folder = await temporaryFolder(t);
    const pid = running(t);
    const dead = { pid, command: '/opt/temporal server start-dev', started: null };
    await writeFile(path.join(folder, 'temporal-server.json'), JSON.stringify(dead));
    const claim = await claimFolder(folder, unheard);
    assert.equal(isRunning(pid), true);
    await claim.release();
  });
});

test('a stack is found by its temporal.yaml, by the one that it has written, and by its folder', async (t) => {
  const home = await temporaryFolder(t);
  const folder = path.join(home, '.rollouts');
  const [config, settings] = [path.join(home, 'my.yaml'), path.join(folder, 'temporal.yaml')];
  const files = [config, settings, path.join(home, 'other.yaml'), undefined];
  const found = () => Promise.all(files.map(async (file) => (await stackOf(file))?.logs ?? null));
  const before = process.cwd();
  t.after(() => {
    process.chdir(before);
  });
  process.chdir(home);
  const claim = await claimFolder(folder, unheard);
  const said = { pid: process.pid, config, settings, logs: 'its logs' } as RunningStack;
  await sayRunning(folder, said);
  assert.deepEqual(await found(), ['its logs', 'its logs', null, 'its logs']);
  const lock = path.join(folder, 'stack.lock');
  const claimed = JSON.parse(await readFile(lock, 'utf8')) as object;
  await claim.release();
  // As one leaves it that was killed.
  await sayRunning(folder, said);
  assert.deepEqual(await found(), [null, null, null, null]);
  // On a shared folder, as another host has it.
  await writeFile(lock, JSON.stringify({ ...claimed, host: 'elsewhere' }));
  assert.deepEqual(await found(), [null, null, null, null]);
});
