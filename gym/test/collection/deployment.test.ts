import assert from 'node:assert/strict';
import { test } from 'node:test';
import { existsSync } from 'node:fs';
import { chown, mkdir, writeFile } from 'node:fs/promises';
import path from 'node:path';
import { hasStack, portsFor } from '../../collection/start/deployment.js';
import { planServer } from '../../../dev/stack.js';
import { temporaryFolder } from '../../../test/dev/fakes.js';

test('a folder that only a file names is no stack of a collection, and is not written to', async (t) => {
  const folder = await temporaryFolder(t);
  assert.equal(await hasStack(folder), false);
  assert.equal(await hasStack(path.join(folder, 'missing')), false);
  await writeFile(path.join(folder, 'collect.yaml'), '');
  assert.equal(await hasStack(folder), true);
  // Only root can give a file away.
  if (process.getuid?.() !== 0) return;
  await chown(path.join(folder, 'collect.yaml'), 65_534, 65_534);
  assert.equal(await hasStack(folder), false);
});

test('a stack removes its own logs from the folder that it is given, and no others', async (t) => {
  const folder = await temporaryFolder(t);
  const logs = path.join(folder, 'logs');
  await mkdir(path.join(logs, 'deep'), { recursive: true });
  for (const name of ['mine.txt', 'deep/mine.txt', 'worker.log', 'temporal-server.log'])
    await writeFile(path.join(logs, name), '');
  await planServer(folder, { server: 0, ui: 0 });
  const left = ['mine.txt', 'deep/mine.txt', 'worker.log', 'temporal-server.log'].filter((name) =>
    existsSync(path.join(logs, name)),
  );
  assert.deepEqual(left, ['mine.txt', 'deep/mine.txt']);
});

test('stacks of collections look for their ports in different places, each always in its own', () => {
  const folders = Array.from({ length: 40 }, (_, i) => `/work/.rollouts/out-${i}`);
  const servers = folders.map((folder) => portsFor(folder).server);
  assert.deepEqual(
    servers,
    folders.map((folder) => portsFor(folder).server),
  );
  assert.ok(new Set(servers).size >= 38);
  for (const folder of folders) {
    const { server, ui } = portsFor(folder);
    assert.ok(server >= 20_000 && ui === server + 1 && ui < 32_768);
  }
});
