/** A stack that programs use: who uses it, what is served to it, and when it ends. */
import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdir, readdir, rm, writeFile } from 'node:fs/promises';
import path from 'node:path';
import { describe, test, type TestContext } from 'node:test';
import { setTimeout as sleep } from 'node:timers/promises';
import { whatRuns } from '../../dev/running-stack.js';
import { servedIn } from '../../dev/served.js';
import type { Stack } from '../../dev/stack.js';
import { tend } from '../../dev/tend.js';
import { forgetEarlier, noteUser, useOf } from '../../dev/users.js';
import { temporaryFolder } from './fakes.js';
import { eventually } from '../../lab/bed/waiting.js';

const SAID = {
  config: '',
  pid: process.pid,
  version: '0.1.0',
  address: '127.0.0.1:7233',
  namespace: 'default',
  task_queue: 'rollouts',
  ui_url: 'http://127.0.0.1:8233',
  viewer_url: 'http://127.0.0.1:8234/?token=t',
  engine: null,
  engine_faults: [],
  settings: 'temporal.yaml',
  logs: 'logs',
  environments: [],
  lines: [],
};

/** A process that uses something until it is killed. */
function aProcess(t: TestContext): { pid: number; kill: () => Promise<void> } {
  const child = spawn(process.execPath, ['-e', 'setInterval(() => undefined, 1000)'], {
    stdio: 'ignore',
  });
  const exited = once(child, 'exit');
  const kill = async (): Promise<void> => {
    child.kill('SIGKILL');
    await exited;
  };
  t.after(kill);
  return { pid: child.pid ?? 0, kill };
}

async function tended(
  t: TestContext,
  {
    folder,
    ends_unused = true,
    grace_ms,
  }: { folder: string; ends_unused?: boolean; grace_ms?: number },
) {
  const told: Record<string, string>[] = [];
  const said: string[] = [];
  const over = new AbortController();
  t.after(() => {
    over.abort();
  });
  const serve = (served: Record<string, string>): Promise<void> => {
    told.push(served);
    return Promise.resolve();
  };
  const state = { ended: false };
  const { over: lasts } = await tend({
    folder,
    // It asks nothing else of it.
    stack: { serve } as unknown as Stack,
    said: { ...SAID, ends_unused },
    say: (line) => said.push(line),
    signal: over.signal,
    ...(grace_ms !== undefined && { grace_ms }),
  });
  const ends = lasts.then(() => {
    state.ended = true;
  });
  assert.notEqual(await whatRuns(folder), null, 'it does not say that it runs');
  return { told, said, state, ends };
}

async function serveIn(folder: string, { name, url }: { name: string; url: string }) {
  await mkdir(path.join(folder, 'environments'), { recursive: true });
  await writeFile(path.join(folder, 'environments', `${name}.json`), JSON.stringify({ url }));
}

describe('a stack that programs use', () => {
  test('ends once the last of them has left, and not before', async (t) => {
    const folder = await temporaryFolder(t);
    const [one, other] = [aProcess(t), aProcess(t)];
    await noteUser(folder, one.pid);
    await noteUser(folder, other.pid);
    const { state, ends } = await tended(t, { folder });
    await rm(path.join(folder, 'users', `${one.pid}.json`));
    await sleep(1000);
    assert.equal(state.ended, false);
    await rm(path.join(folder, 'users', `${other.pid}.json`));
    await ends;
    assert.equal(await whatRuns(folder), null, 'it still says that it runs');
  });

  test('waits for one that was killed to come back, and ends if nobody does', async (t) => {
    const folder = await temporaryFolder(t);
    const [killed, back] = [aProcess(t), aProcess(t)];
    await noteUser(folder, killed.pid);
    const { state, ends } = await tended(t, { folder, grace_ms: 4000 });
    await killed.kill();
    await sleep(500);
    assert.equal(await useOf(folder), 'dead');
    await noteUser(folder, back.pid);
    await sleep(4500);
    assert.equal(state.ended, false);
    await back.kill();
    await ends;
  });

  test('stays when one of them keeps it; the next one is not kept', async (t) => {
    const folder = await temporaryFolder(t);
    const { pid } = aProcess(t);
    await noteUser(folder, pid);
    await noteUser(folder, 'kept');
    const { state } = await tended(t, { folder });
    await rm(path.join(folder, 'users', `${pid}.json`));
    await sleep(1000);
    assert.equal(state.ended, false);
    await forgetEarlier(folder);
    assert.equal(await useOf(folder), 'left');
  });

  test('a user is the process, not its id', async (t) => {
    const folder = await temporaryFolder(t);
    await noteUser(folder, process.pid);
    assert.equal(await useOf(folder), 'used');
    const file = path.join(folder, 'users', `${process.pid}.json`);
    const earlier = { pid: process.pid, command: process.argv.join(' '), started: 'long ago' };
    await writeFile(file, JSON.stringify(earlier));
    assert.equal(await useOf(folder), 'dead');
    await forgetEarlier(folder);
    assert.deepEqual(await readdir(path.join(folder, 'users')), []);
  });

  test('and that gives itself another title is the same process', async (t) => {
    const folder = await temporaryFolder(t);
    const before = process.title;
    t.after(() => {
      process.title = before;
    });
    await noteUser(folder, process.pid);
    process.title = 'trainer [epoch 3]';
    assert.equal(await useOf(folder), 'used');
  });

  test('that a person started does not end with them', async (t) => {
    const folder = await temporaryFolder(t);
    const { state } = await tended(t, { folder, ends_unused: false });
    await sleep(1000);
    assert.equal(state.ended, false);
  });
});

describe('environments that are served to a stack', () => {
  test('are given to its worker as they come, and are said once it has them', async (t) => {
    const folder = await temporaryFolder(t);
    await noteUser(folder, process.pid);
    await serveIn(folder, { name: 'mine', url: 'http://127.0.0.1:9000' });
    const { told, said } = await tended(t, { folder });
    assert.deepEqual((await whatRuns(folder))?.served, { mine: 'http://127.0.0.1:9000' });
    assert.deepEqual(told, [], 'its worker has been started with this one');
    await serveIn(folder, { name: 'other.2', url: 'http://127.0.0.1:9001' });
    const both = { mine: 'http://127.0.0.1:9000', 'other.2': 'http://127.0.0.1:9001' };
    await eventually(
      'it says so',
      async () => (await whatRuns(folder))?.served['other.2'] !== undefined,
    );
    assert.deepEqual(told, [both]);
    assert.match(said.join('\n'), /environment other\.2; batches that run go on/);
  });

  test('stay when their file is half written or gone: rollouts wait for them', async (t) => {
    const folder = await temporaryFolder(t);
    await noteUser(folder, process.pid);
    await serveIn(folder, { name: 'mine', url: 'http://127.0.0.1:9000' });
    const { told } = await tended(t, { folder });
    await writeFile(path.join(folder, 'environments', 'mine.json'), '{"url": "http');
    await sleep(700);
    assert.deepEqual(await servedIn(folder), {});
    assert.deepEqual((await whatRuns(folder))?.served, { mine: 'http://127.0.0.1:9000' });
    assert.deepEqual(told, []);
  });
});
