import assert from 'node:assert/strict';
import { mkdir, readFile, readdir, writeFile } from 'node:fs/promises';
import path from 'node:path';
import { test } from 'node:test';
import { examplesCommand } from '../../src/cli/examples.js';
import { UsageError } from '../../src/platform/command.js';
import { PROJECT_ROOT } from '../../src/platform/project-root.js';
import { temporaryFolder } from '../fakes/temporary-store.js';

const BATCH = path.join('sliding-puzzle', 'batch.json');

test('examples copies all of them, and leaves files that are there as they are', async (t) => {
  const folder = path.join(await temporaryFolder(t), 'mine');
  await mkdir(path.join(folder, 'sliding-puzzle'), { recursive: true });
  await writeFile(path.join(folder, BATCH), 'changed');
  assert.equal(await examplesCommand([folder]), 0);
  const own = path.join(PROJECT_ROOT, 'examples');
  assert.deepEqual((await readdir(folder)).sort(), (await readdir(own)).sort());
  assert.equal(await readFile(path.join(folder, BATCH), 'utf8'), 'changed');
  const other = path.join('custom-environment', 'guess.py');
  const [copied, original] = await Promise.all(
    [folder, own].map((place) => readFile(path.join(place, other), 'utf8')),
  );
  assert.equal(copied, original);
});

test('examples refuses the folder of the examples themselves, and a second folder', async () => {
  await assert.rejects(examplesCommand([path.join(PROJECT_ROOT, 'examples')]), UsageError);
  await assert.rejects(examplesCommand(['a', 'b']), /expected one FOLDER, got 2/);
});
